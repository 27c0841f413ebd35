"""Serves the schema at `/graphql`, with GraphiQL for browsers."""

from typing import Annotated

from dishka import AsyncContainer
from fastapi import Depends
from strawberry.fastapi import GraphQLRouter

from examples.family.api.context import Context, CurrentUser
from examples.family.api.schema import schema


def graphql_router(container: AsyncContainer) -> GraphQLRouter[Context, None]:
    """Make the router."""

    async def context(current_user: Annotated[CurrentUser, Depends()]) -> Context:
        return Context(container, current_user)

    return GraphQLRouter(
        schema,
        context_getter=context,
        allow_queries_via_get=False,  # the URL would be in the access log, perhaps with a token
        subscription_protocols=(),  # there are no subscriptions
    )
