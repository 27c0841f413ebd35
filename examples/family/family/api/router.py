"""Serves the schema at `/graphql`, with GraphiQL for browsers."""

from json import JSONDecodeError
from pathlib import Path
from typing import Annotated

from dishka import AsyncContainer
from fastapi import Depends
from strawberry.fastapi import GraphQLRouter

from family.api.context import Context, CurrentUser
from family.api.schema import schema

GRAPHIQL = Path(__file__).with_name("graphiql")
"""The page and the files that it loads; strawberry's own loads them from another host."""


class Router(GraphQLRouter[Context, None]):
    """Answers 400 to a body that is no JSON object, and GraphiQL to browsers."""

    def decode_json(self, data: str | bytes) -> object:
        try:
            document = super().decode_json(data)
        except (ValueError, RecursionError) as error:
            raise JSONDecodeError(str(error), "", 0) from error
        if not isinstance(document, dict):
            raise JSONDecodeError("no object", "", 0)
        return document

    @property
    def graphql_ide_html(self) -> str:
        return GRAPHIQL.joinpath("index.html").read_text(encoding="utf-8")


def graphql_router(container: AsyncContainer) -> Router:
    """Make the router."""

    async def context(current_user: Annotated[CurrentUser, Depends()]) -> Context:
        return Context(container, current_user)

    return Router(
        schema,
        context_getter=context,
        allow_queries_via_get=False,  # the URL would be in the access log, perhaps with a token
        subscription_protocols=(),  # there are no subscriptions
    )
