"""`postroom doctor`: what is wrong with the outbox, its database and its broker, and the remedy."""

import shutil
import textwrap
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from postroom.cli import output, values
from postroom.cli.command import command
from postroom.cli.connecting import Connected, connected
from postroom.cli.errors import CommandError, Exit, missing_extra
from postroom.cli.options import BROKER, DEFAULT_EXCHANGE, AsJson, Connection, Exchange, setting
from postroom.cli.output import Cell

if TYPE_CHECKING:
    from postroom.doctor import Finding, Result, Subject
    from postroom.publishers.base import Publisher

STYLES: Final = {"ok": "good", "note": "warn", "problem": "bad"}
NAMES: Final = 12
"""Characters of the longest name of a check."""
INDENT: Final = 11 + NAMES + 1
ARROW: Final = "→ "
BrokerUrl = Annotated[
    str | None,
    setting(
        "RABBITMQ_URL",
        values.secret,
        "URL",
        "RabbitMQ, if the relay is not named: amqp://user:password@mq1,mq2/vhost.",
        BROKER,
    ),
]


@command
async def doctor(
    connection: Connection,
    broker: BrokerUrl = None,
    exchange: Exchange = DEFAULT_EXCHANGE,
    transaction_limit: Annotated[
        Any,
        typer.Option(
            parser=values.duration,
            metavar="TIME",
            help="A transaction that is open for longer is a problem: 30s, 5m, 1h.",
        ),
    ] = "5m",
    json: AsJson = False,
) -> int:
    """Check the database, the workers and the broker; print each problem with its remedy.

    Nothing is changed. With --relay the settings, the topology and the handlers are checked too.

    [bold]Examples[/bold]
      postroom doctor --relay app.outbox:relay
      postroom doctor --database postgresql://db/shop --broker amqp://mq/shop
      postroom doctor --json | jq '.checks[].findings[].remedy[]'

    [bold]Exit codes[/bold]
      0  no problem was found; notes are no problem
      1  a problem was found: a database or a broker that does not answer is one, too
      2  an option, a setting, your module or an extra is wrong or missing
    """
    from postroom.doctor import Subject

    async with connected(connection) as found:
        results = await _examine(
            Subject(
                outbox=found.outbox,
                engine=found.engine,
                place=found.place,
                relay=found.relay,
                relay_name=connection.relay if found.relay is not None else None,
                publisher=publisher_of(found, broker, exchange),
                transaction_limit=transaction_limit,
            ),
            quiet=json,
        )
    problems, notes = (_count(results, level) for level in ("problem", "note"))
    if json:
        output.print_json({"outbox": found.place, "problems": problems, "checks": results})
    else:
        _print_end(problems, notes)
    return Exit.PROBLEM if problems else Exit.OK


def publisher_of(found: Connected, broker: str | None, exchange: str) -> "Publisher | None":
    """Return the relay's publisher, or one for the broker that was named."""
    from postroom.errors import ConfigurationError

    if found.relay is not None:
        return found.relay.publisher
    if broker is None:
        return None
    try:
        from postroom.publishers.rabbitmq import RabbitMQPublisher

        return RabbitMQPublisher(broker, exchange=exchange)
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from error
    except ConfigurationError as error:
        raise CommandError(str(error)) from error


async def _examine(subject: "Subject", *, quiet: bool) -> "list[Result]":
    """Run the checks; print each result as soon as there is one, unless `quiet`."""
    from postroom.doctor import examine

    results: list[Result] = []
    async for result in examine(subject):
        if not quiet:
            _print_result(result, is_first=not results or results[-1].subject != result.subject)
        results.append(result)
    return results


def _print_result(result: "Result", *, is_first: bool) -> None:
    if is_first:
        output.print_line(result.subject)
    for finding in result.findings:
        _print_finding(result.check, finding)


def _print_finding(check: str, finding: "Finding") -> None:
    """Print the level, the check and the text; the remedies below."""
    first, *more = _wrapped(finding.text)
    level = Cell(f"  {finding.level:<8} ", STYLES[finding.level])
    output.print_line(level, Cell(f"{check:<{NAMES}} ", "quiet"), first)
    for line in more:
        output.print_line(" " * INDENT, line)
    for remedy in finding.remedy:
        output.print_line(" " * (INDENT - len(ARROW)), Cell(ARROW, "quiet"), remedy)


def _wrapped(text: str) -> list[str]:
    """Break a text into lines for a terminal; one line for a pipe."""
    if not output.on_terminal():
        return [text]
    width = max(40, shutil.get_terminal_size().columns - INDENT)
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _print_end(problems: int, notes: int) -> None:
    from postroom.inspection import counted

    if problems:
        text = f"{counted(problems, 'problem')}, {counted(notes, 'note')}"
        output.print_line(Cell(text, "bad"))
    else:
        output.print_line(Cell(f"no problem, {counted(notes, 'note')}", "good"))


def _count(results: "list[Result]", level: str) -> int:
    return sum(each.level == level for result in results for each in result.findings)
