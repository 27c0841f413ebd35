"""How much one document may ask for, so that one request is one request's worth of work."""

from typing import NamedTuple

from graphql import (
    FieldNode,
    FragmentSpreadNode,
    GraphQLError,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionNode,
    SelectionSetNode,
    ValidationContext,
    ValidationRule,
)
from strawberry.extensions import AddValidationRules, MaxTokensLimiter, SchemaExtension

MAX_TOKENS = 2_000
MAX_COMMANDS = 10
"""Fields at the top level of an operation, aliased or not: each is a command with a transaction."""
MAX_FIELDS = 500
"""Fields of an operation. A fragment counts as often as it is used."""
MAX_DEPTH = 25
"""Levels of an operation: fields and fragments. An introspection query has 18."""


class Size(NamedTuple):
    """What a selection asks for."""

    commands: int = 0
    fields: int = 0
    depth: int = 0


class DocumentLimits(ValidationRule):
    """Refuses an operation that asks for too much.

    It looks at each fragment once. (Strawberry's limiters of aliases and depth do so each time it
    is used: 25 fragments that use the next one twice keep them busy for a minute.)
    """

    def __init__(self, context: ValidationContext) -> None:
        super().__init__(context)
        self._fragments: dict[str, Size] = {}

    def enter_operation_definition(self, node: OperationDefinitionNode, *_: object) -> None:
        size = self._measure(node.selection_set)
        self._check(size.commands, MAX_COMMANDS, "fields at its top level")
        self._check(size.fields, MAX_FIELDS, "fields")
        self._check(size.depth, MAX_DEPTH, "levels")

    def _check(self, number: int, limit: int, what: str) -> None:
        if number > limit:
            message = f"An operation may have at most {limit} {what}."
            self.report_error(GraphQLError(message, extensions={"code": "TOO_LARGE"}))

    def _measure(self, selected: SelectionSetNode | None, level: int = 1) -> Size:
        if selected is None:
            return Size()
        if level > MAX_DEPTH:
            return Size(depth=1)  # is too deep, so it does not matter what else is there
        sizes = [self._of(each, level) for each in selected.selections]
        return Size(
            commands=sum(size.commands for size in sizes),
            fields=sum(size.fields for size in sizes),
            depth=1 + max(size.depth for size in sizes),
        )

    def _of(self, node: SelectionNode, level: int) -> Size:
        match node:
            case FieldNode():
                inner = self._measure(node.selection_set, level + 1)
                return inner._replace(commands=1, fields=1 + inner.fields)
            case InlineFragmentNode():
                return self._measure(node.selection_set, level + 1)
            case FragmentSpreadNode():
                return self._of_fragment(node.name.value, level)
            case _:
                return Size()

    def _of_fragment(self, name: str, level: int) -> Size:
        if name not in self._fragments:
            self._fragments[name] = Size()  # if it uses itself: another rule refuses that
            fragment = self.context.get_fragment(name)
            if fragment is not None:
                self._fragments[name] = self._measure(fragment.selection_set, level + 1)
        return self._fragments[name]


def max_tokens() -> SchemaExtension:
    """Keep documents short: the parser stops there."""
    return MaxTokensLimiter(max_token_count=MAX_TOKENS)


def document_limits() -> SchemaExtension:
    return AddValidationRules([DocumentLimits])
