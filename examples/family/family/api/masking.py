"""What nobody foresaw: the client learns that something went wrong, the log learns what."""

import logging

import strawberry
from graphql import GraphQLError
from postroom import database_outage
from starlette.status import HTTP_503_SERVICE_UNAVAILABLE
from strawberry.extensions import MaskErrors
from strawberry.types import ExecutionContext

logger = logging.getLogger(__name__)


class MaskedErrors(MaskErrors):
    """Hides what happened, but says whether it is worth trying again."""

    def __init__(self) -> None:
        super().__init__(should_mask_error=_is_unexpected)

    def anonymise_error(self, error: GraphQLError) -> GraphQLError:
        message, code = "internal error", "INTERNAL"
        if error.original_error and database_outage(error.original_error):
            message, code = "try again later", "UNAVAILABLE"
            self.execution_context.context.response.status_code = HTTP_503_SERVICE_UNAVAILABLE
        return GraphQLError(message, error.nodes, path=error.path, extensions={"code": code})


class LoggingSchema(strawberry.Schema):
    """Logs what happened, never the request: it may hold a token."""

    def process_errors(
        self, errors: list[GraphQLError], execution_context: ExecutionContext | None = None
    ) -> None:
        for error in filter(_is_unexpected, errors):
            path, cause = ".".join(map(str, error.path or [])), error.original_error
            if cause and database_outage(cause):
                logger.warning(
                    "the database is away, at %s: %s", path, str(cause).partition("\n")[0]
                )
            else:
                logger.error("unexpected error at %s", path, exc_info=cause)


def _is_unexpected(error: GraphQLError) -> bool:
    """Tell an error of ours from a mistake in the client's document or variables."""
    original = error.original_error
    return original is not None and not isinstance(original, GraphQLError)
