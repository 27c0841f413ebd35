"""A broker or a database that is away: what still works, and what comes after."""

import asyncio

import httpx
import pytest
from yarl import URL

from tests.examples.family.conftest import APP
from tests.examples.family.database import Database
from tests.examples.family.mailbox import Mailbox
from tests.examples.family.users import INVITE, Someone, address
from tests.support.broker import Broker
from tests.support.command import Commands
from tests.support.listening import HOST
from tests.support.proxy import Fault, How, Proxy, proxy_to
from tests.support.server import serve
from tests.support.waiting import eventually


def go_away(proxy: Proxy) -> None:
    """Cut every connection that there is, and every one that comes."""
    proxy.faults.extend([Fault(how=How.RST, after_sent=1)] * 10_000)
    proxy.suffer(How.RST)


def come_back(proxy: Proxy) -> None:
    proxy.faults.clear()


def through(proxy: Proxy, url: str) -> str:
    return str(URL(url).with_host(HOST).with_port(proxy.port))


async def readiness(http: httpx.AsyncClient, relay: str) -> httpx.Response:
    """Wait until the application says that this is the status of its relay."""
    told = await http.get("/health/ready")

    async def is_so() -> bool:
        nonlocal told
        told = await http.get("/health/ready")
        return bool(told.json()["relay"]["status"] == relay)

    await eventually(is_so, relay)
    assert (await http.get("/health/live")).status_code == 200
    return told


@pytest.mark.requirement("D9")
async def test_invitations_are_made_while_the_broker_is_away_and_sent_when_it_is_back(
    commands: Commands,
    own_database_url: str,
    own_database: Database,
    rabbitmq_url: str,
    broker: Broker,
) -> None:
    async with proxy_to(URL(rabbitmq_url).port or 5672, prepare=go_away) as proxy:
        away = through(proxy, rabbitmq_url)
        server = serve(commands, APP, DATABASE_URL=own_database_url, RABBITMQ_URL=away)
        async with server.client() as http:
            ann = Someone(http)
            family = await ann.create_family()
            await ann.invite(family)
            told = await readiness(http, "degraded")
            assert (told.status_code, told.json()["status"]) == (200, "ok")
            reason = told.json()["relay"]["reason"]
            assert reason.startswith("the publisher is unavailable: ")
            [record] = own_database.records(family)
            assert (record["status"], record["retry_count"]) == ("pending", 0)

            come_back(proxy)
            await readiness(http, "ok")
            mail = Mailbox(broker, "family-hub.invitations")
            assert len(await mail.messages(family)) == 1
            await eventually(lambda: own_database.records(family)[0]["status"] == "published")
            assert own_database.records(family)[0]["retry_count"] == 0


async def test_clients_are_told_to_come_back_while_the_database_is_away(
    commands: Commands, own_database_url: str, own_database: Database, rabbitmq_url: str
) -> None:
    async with proxy_to(URL(own_database_url).port or 5432) as proxy:
        url = through(proxy, own_database_url)
        server = serve(commands, APP, DATABASE_URL=url, RABBITMQ_URL=rabbitmq_url)
        async with server.client() as http:
            ann = Someone(http)
            family = await ann.create_family()
            go_away(proxy)
            for _ in range(2):  # with a connection that is cut, and without one
                response = await ann.post(INVITE, familyId=family, email="j@x.eu", role="CHILD")
                assert response.status_code == 503
                [error] = response.json()["errors"]
                assert error["message"] == "try again later"
                assert error["extensions"] == {"code": "UNAVAILABLE"}
            told = await readiness(http, "degraded")
            assert (told.status_code, told.json()["status"]) == (503, "unavailable")
            reason = told.json()["relay"]["reason"]
            assert reason.startswith("the database is unavailable: ")

            come_back(proxy)
            await ann.invite(family, "j@x.eu")
            assert (await readiness(http, "ok")).status_code == 200
            await eventually(lambda: own_database.records(family)[0]["status"] == "published")


async def test_a_command_that_the_database_breaks_off_is_worth_trying_again(
    ann: Someone, family: str, database: Database
) -> None:
    email = address()
    other = database.begin_to_invite(family, email)
    asked = asyncio.create_task(ann.post(INVITE, familyId=family, email=email, role="CHILD"))
    await database.somebody_waits()
    database.hang_up()
    response = await asked
    assert response.status_code == 503
    assert response.json()["errors"][0]["extensions"] == {"code": "UNAVAILABLE"}
    other.run("ROLLBACK")
    other.close()
    answer = await ann.invite(family, email)
    assert answer["__typename"] == "InviteFamilyMemberByEmailPayload"
    assert len(database.records(family)) == 1
