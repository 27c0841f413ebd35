"""What lies around the schema: documents that are wrong, and GraphiQL."""

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.examples.family.users import INVITE, LOOK
from tests.support.page import files_of_page


@pytest.mark.parametrize(
    "body",
    [
        {"query": "mutation {"},
        {"query": "{ nothing }"},
        {"query": INVITE, "variables": {"familyId": "x", "email": "", "role": "CHILD"}},
        {"query": INVITE, "variables": {"familyId": str(uuid4()), "email": "", "role": "KING"}},
        {"query": LOOK, "variables": {}},
    ],
)
async def test_a_document_or_variable_that_is_wrong_is_explained(
    http: httpx.AsyncClient, body: dict[str, Any]
) -> None:
    response = await http.post("/graphql", json=body)
    [error] = response.json()["errors"]
    assert error["message"] != "internal error"
    assert "extensions" not in error
    assert response.json()["data"] is None


async def test_browsers_get_a_page_that_needs_no_other_host(http: httpx.AsyncClient) -> None:
    assert await files_of_page(http, "/graphql") == {
        "graphiql/graphiql.css",
        "graphiql/graphiql.min.js",
        "graphiql/react-dom.production.min.js",
        "graphiql/react.production.min.js",
    }
    query = await http.get("/graphql", params={"query": "{ __typename }"})
    assert query.status_code == 400
