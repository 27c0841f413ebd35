"""`postroom console`: the outbox in a browser."""

import asyncio
import signal
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from postroom.cli import output, values
from postroom.cli.command import command
from postroom.cli.connecting import Connected, connected
from postroom.cli.doctor import BrokerUrl, publisher_of
from postroom.cli.errors import CommandError, Exit, missing_extra
from postroom.cli.options import DEFAULT_EXCHANGE, Connection, Exchange, setting

if TYPE_CHECKING:
    from starlette.applications import Starlette

SERVER: Final = "Server"
GRACE: Final = 3
"""Seconds that pages which are being made have to end, after Ctrl-C."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """Where the console answers, and who may come in."""

    console_host: Annotated[
        str,
        setting(
            "POSTROOM_CONSOLE_HOST",
            values.text,
            "ADDRESS",
            "Address to answer on. Another one than this machine's own needs a token.",
            SERVER,
            "--host",
        ),
    ] = "127.0.0.1"
    console_port: Annotated[
        int,
        setting(
            "POSTROOM_CONSOLE_PORT", values.port, "PORT", "Port to answer on.", SERVER, "--port"
        ),
    ] = 8765
    console_token: Annotated[
        str | None,
        setting(
            "POSTROOM_CONSOLE_TOKEN",
            values.secret,
            "TOKEN",
            "Token for operators. Prefer the variable: other users can see command-line options.",
            SERVER,
            "--token",
        ),
    ] = None
    console_reader_token: Annotated[
        str | None,
        setting(
            "POSTROOM_CONSOLE_READER_TOKEN",
            values.secret,
            "TOKEN",
            "Token for readers, who cannot change anything.",
            SERVER,
            "--reader-token",
        ),
    ] = None
    trace_url: Annotated[
        str | None,
        setting(
            "POSTROOM_TRACE_URL",
            values.text,
            "URL",
            "Where traces are shown: https://traces.example.com/trace/{trace_id}",
            SERVER,
        ),
    ] = None
    given: frozenset[str] = frozenset()


@command
async def console(
    connection: Connection,
    settings: ConsoleSettings,
    broker: BrokerUrl = None,
    exchange: Exchange = DEFAULT_EXCHANGE,
) -> int:
    """Serve the outbox as pages for a browser, until Ctrl-C.

    Without a token it answers this machine only, and everybody on it is an operator. With
    --read-only nobody can change anything.

    [bold]Examples[/bold]
      postroom console --database postgresql://app@db/shop
      postroom console --relay app.outbox:relay   [dim]# knows handlers and routes[/dim]
      POSTROOM_CONSOLE_TOKEN=… postroom console --host 0.0.0.0
    """
    async with connected(connection) as found:
        app = _console_of(found, connection, settings, broker, exchange)
        await found.inspector.overview()  # what prevents that is better said now than on a page
        await _serve(app, found, settings)
    return Exit.OK


def _console_of(
    found: Connected,
    connection: Connection,
    settings: ConsoleSettings,
    broker: str | None,
    exchange: str,
) -> "Starlette":
    """Make the console that the options describe. Raises CommandError."""
    try:
        import uvicorn  # noqa: F401  `_serve` needs it

        from postroom.console import console as make_console
        from postroom.console.access import is_loopback
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from error
    from postroom.errors import ConfigurationError

    tokens = settings.console_token, settings.console_reader_token
    if not any(tokens) and not is_loopback(settings.console_host):
        raise CommandError(
            f"--host {settings.console_host} can be reached from other machines, so it needs a"
            " token: set POSTROOM_CONSOLE_TOKEN, or POSTROOM_CONSOLE_READER_TOKEN."
        )
    try:
        return make_console(
            found.outbox,
            found.engine,
            token=settings.console_token,
            reader_token=settings.console_reader_token,
            read_only=connection.read_only,
            relay=found.relay,
            publisher=publisher_of(found, broker, exchange),
            trace_url=settings.trace_url,
        )
    except ConfigurationError as error:
        raise CommandError(str(error)) from error


async def _serve(app: "Starlette", found: Connected, settings: ConsoleSettings) -> None:
    import uvicorn

    host, port = settings.console_host, settings.console_port
    with _listening(host, port) as listener:
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE,
        )
        server = uvicorn.Server(config)
        for each in (signal.SIGINT, signal.SIGTERM):  # uvicorn ends by it, and then raises it again
            signal.signal(each, signal.SIG_IGN)
        serving = asyncio.create_task(server.serve([listener]))
        while not (server.started or serving.done()):  # noqa: ASYNC110  uvicorn has no event for it
            await asyncio.sleep(0.01)
        if server.started:
            shown = f"[{host}]" if ":" in host else host
            output.print_line(f"The console of {found.place}: http://{shown}:{port}")
        await serving


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server((str(address[0]), port), family=family)
    except OSError as error:
        reason = error.strerror or error
        raise CommandError(f"cannot listen on {host}:{port}: {reason}. Try --port.") from error
