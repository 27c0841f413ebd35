"""What a message refers to: its text, its channel, its groups."""

import pytest

from tests.examples.messaging.account import Account, new_id


async def test_a_text_of_its_own_becomes_a_template(account: Account) -> None:
    message = await account.group_message()
    [template] = (await account.get("/templates"))["items"]
    assert template["id"] == message["template_id"]
    assert template["body"] == "Hi"


@pytest.mark.parametrize("field", ["channel_id", "template_id", "contact_group_ids"])
async def test_what_a_message_refers_to_has_to_be_there(account: Account, field: str) -> None:
    body = await account.group_message_body()
    unknown = new_id()
    if field == "template_id":
        del body["body"]
    body[field] = [unknown] if field == "contact_group_ids" else unknown
    problem = await account.refused("POST", "/group-messages", **body)
    assert problem["loc"] == ["body", field]
    name = field.removesuffix("_ids").removesuffix("_id").replace("_", " ")
    assert problem["msg"] == f"there is no {name} {unknown}"
    assert (await account.get("/group-messages"))["total"] == 0


async def test_what_another_account_has_cannot_be_used(account: Account) -> None:
    stranger = Account(account.client)
    body = await account.group_message_body()
    answer = await stranger.ask("POST", "/group-messages", json=body)
    assert answer.json()["detail"][0]["msg"] == f"there is no channel {body['channel_id']}"
    body["channel_id"] = await stranger.channel()
    answer = await stranger.ask("POST", "/group-messages", json=body)
    [group] = body["contact_group_ids"]
    assert answer.json()["detail"][0]["msg"] == f"there is no contact group {group}"
