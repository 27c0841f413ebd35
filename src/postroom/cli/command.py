"""Makes a Typer command of a coroutine function, and runs it to its end."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from dataclasses import fields, is_dataclass
from inspect import Parameter
from typing import Any, get_type_hints

import typer

from postroom.cli.errors import BY_SIGNAL
from postroom.cli.logs import set_up_logging
from postroom.cli.reporting import Invocation, reporting, wants_json

CommandFunction = Callable[..., Coroutine[Any, Any, int]]
GIVEN = "given"
SIGINT = 2


def command(function: CommandFunction) -> Callable[..., None]:
    """Return a function that Typer can call: it runs the coroutine, and ends with its exit code.

    A parameter whose type is a dataclass of options becomes one option for each of its fields.
    """
    parameters = inspect.signature(function, eval_str=True).parameters
    groups = {
        name: each.annotation for name, each in parameters.items() if is_dataclass(each.annotation)
    }

    def run(context: typer.Context, **values: Any) -> None:
        if context.invoked_subcommand is not None:  # of a group that is a command, too
            return
        with reporting(context):
            for name, group in groups.items():
                values[name] = make_group(group, context, values)
            style = "json" if wants_json(context, context.obj.words) else "text"
            set_up_logging(style, context.params.get("log_level", "WARNING"))
            try:
                code = asyncio.run(function(**values))
            except KeyboardInterrupt:
                code = BY_SIGNAL + SIGINT
        raise typer.Exit(code)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__annotations__ = {}
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context),
            *(one for each in parameters.values() for one in _expanded(each)),
        ]
    )
    return run


def _expanded(parameter: Parameter) -> list[Parameter]:
    """Return a parameter, or those of the options that it groups."""
    group = parameter.annotation
    if not is_dataclass(group):
        return [parameter.replace(kind=Parameter.KEYWORD_ONLY)]
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            each.name, Parameter.KEYWORD_ONLY, annotation=hints[each.name], default=each.default
        )
        for each in fields(group)
        if each.name != GIVEN
    ]


def make_group(group: Any, context: typer.Context, values: dict[str, Any]) -> Any:
    """Make a group of its options' values, which are taken out of `values`."""
    names = [each.name for each in fields(group) if each.name != GIVEN]
    options = {name: values.pop(name) for name in names}
    if isinstance(context.obj, Invocation) and "read_only" in options:
        options["read_only"] |= context.obj.read_only
    sources = {name: context.get_parameter_source(name) for name in names}
    given = {name for name, source in sources.items() if source and source.name == "COMMANDLINE"}
    return group(**options, **{GIVEN: frozenset(given)})
