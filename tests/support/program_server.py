"""Imports the libraries once, and forks for each Python program that it is asked to run.

Started by tests.support.program; speaks with it over the socket whose number is its one argument.
A request is a line of JSON, with the program's standard streams and a pipe: through that it tells
the program's pid, and later its exit code. The program itself is a process like any other: its
arguments, environment and working directory are its own, and it ends by itself or by a signal.
"""

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import warnings
from contextlib import suppress
from typing import Any

LIBRARIES = (
    *("aio_pika", "aiosqlite", "alembic.config", "argon2", "asyncpg", "dateutil.rrule"),
    *("dishka.integrations.fastapi", "email_validator", "fastapi", "httpx", "psycopg"),
    *("pydantic_settings", "sqlalchemy.dialects.postgresql.asyncpg", "strawberry.fastapi"),
    *("uvicorn.main", "uvicorn.protocols.http.h11_impl", "uvicorn.lifespan.on"),
    *("postroom.integrations.alembic", "postroom.integrations.dishka"),
    *(
        "postroom.integrations.fastapi",
        "postroom.publishers.rabbitmq",
        "rich.console",
        "rich.table",
    ),
    # The command line, and what its commands import when they run.
    *("postroom.public", "postroom.cli.app", "postroom.cli.wiring", "postroom.cli.worker"),
    *("postroom.cli.database", "postroom.inspection", "postroom.operations", "postroom.doctor"),
)
STREAMS = 3


def serve(channel: socket.socket) -> list[str]:
    """Fork for each request. Returns in the programs only, with their arguments."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who watch
    while True:
        request, files = receive(channel)
        if os.fork() == 0:
            channel.close()
            return watch(request, files)
        for each in files:
            os.close(each)


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Wait for a request; ends the process when nobody is there to make one."""
    line, files, _, _ = socket.recv_fds(channel, 65536, STREAMS + 1)
    while line and not line.endswith(b"\n"):
        line += channel.recv(65536)
    if not line:
        sys.exit()
    return json.loads(line), files


def watch(request: dict[str, Any], files: list[int]) -> list[str]:
    """Start the program, and tell how it ends. Returns in the program only."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, said = files
    program = os.fork()
    if program == 0:
        os.close(said)
        return become(request, streams)
    for each in streams:
        os.close(each)
    os.write(said, f"{program}\n".encode())
    _, status = os.waitpid(program, 0)
    os.write(said, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def become(request: dict[str, Any], streams: list[int]) -> list[str]:
    """Be as a process is that was started with nothing but what the request says."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # A shell that runs the tests in the background has them, and so this process, ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    environment: dict[str, str] = request["environment"]
    arguments: list[str] = request["arguments"]
    if arguments[:2] == ["-W", "error"]:
        warnings.simplefilter("error")
        arguments = arguments[2:]
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
    if arguments[0] == "-m":
        sys.path[0] = request["folder"]
    sys.stdout.reconfigure(line_buffering="PYTHONUNBUFFERED" in environment)  # type: ignore[union-attr]
    return arguments


def run(arguments: list[str]) -> None:
    """Do what `python ARGUMENTS` does."""
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    for library in LIBRARIES:
        with suppress(ModuleNotFoundError):  # `make test-versions` installs no example's libraries
            importlib.import_module(library)
    gc.freeze()  # so that collections do not copy what the programs share
    run(serve(socket.socket(fileno=int(sys.argv[1]))))
