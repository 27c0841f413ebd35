"""Log in to PostgreSQL and RabbitMQ: does one answer, and does it let us in?

Each login gives the server's version, or raises Refused (it answers, and says no) or OSError
(nothing of that kind answers).
"""

import asyncio
import logging

import aio_pika
import psycopg
from aiormq.exceptions import (
    AMQPConnectionError,
    ProbableAuthenticationError,
    ProtocolSyntaxError,
)

TIMEOUT = 5
logging.getLogger("aiormq").setLevel(logging.CRITICAL)  # what it would say, we say in one line


class Refused(Exception):  # noqa: N818 - an answer, not an error
    """Raised when a server answers and refuses the login."""


MAY_CREATE = """SELECT rolsuper OR (rolcreatedb AND rolcreaterole)
    FROM pg_roles WHERE rolname = current_user"""


def postgres_login(url: str) -> str:
    """Log in as the URL's user, who may create databases and roles; gives the major version."""
    try:
        with psycopg.connect(url, connect_timeout=TIMEOUT) as connection:
            if connection.execute(MAY_CREATE).fetchone() != (True,):
                user = connection.info.user
                raise Refused(f"{user} may not create both: ALTER ROLE {user} CREATEDB CREATEROLE")
            return str(connection.info.server_version // 10_000)
    except psycopg.OperationalError as error:
        if "FATAL" in str(error):
            raise Refused(str(error).partition("FATAL:")[2].split("\n")[0].strip()) from None
        raise OSError("nothing answers") from error
    except psycopg.Error:  # its text would show the URL, with the password
        raise Refused("that is no URL of the form postgresql://user:password@host/db") from None


def rabbitmq_login(url: str) -> str:
    """Log in as the URL's user; gives the version."""
    try:
        return asyncio.run(_rabbitmq_login(url))
    except ValueError:
        raise Refused("that is no URL of the form amqp://user:password@host/vhost") from None


async def _rabbitmq_login(url: str) -> str:
    try:
        connection = await aio_pika.connect(url, timeout=TIMEOUT)
    except ProbableAuthenticationError as error:
        raise Refused(str(error)) from None
    except ProtocolSyntaxError:  # how aio-pika takes "Connection.Close" for an answer
        raise Refused("no such vhost, or not allowed into it") from None
    except (AMQPConnectionError, TimeoutError) as error:
        raise OSError("nothing answers") from error
    async with connection:
        transport = connection.transport
        version = transport.connection.server_properties["version"] if transport else ""
        return version.decode() if isinstance(version, bytes) else str(version)
