"""How a command ends: its error as one line on standard error, and its exit code."""

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import typer
from typer.core import TyperGroup

from postroom.cli.errors import BY_SIGNAL, CommandError, Exit
from postroom.cli.logs import set_up_logging
from postroom.cli.values import BadValue
from postroom.errors import error_text, traceable
from postroom.redaction import mask

UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])
"""Typer's base of every error in how a command is called. Typer does not export it."""
FIRST = ("status", "list", "show", "why", "failures")
"""The commands that the help begins with."""
LOG_FORMAT, LOG_FORMAT_VARIABLE = "log_format", "POSTROOM_LOG_FORMAT"


@dataclass(slots=True)
class Invocation:
    """What every command of a process knows: its words, and whether it may change anything."""

    words: Sequence[str]
    read_only: bool = False


class Commands(TyperGroup):
    """The commands, as `postroom --help` lists them, by how often they are needed.

    Errors in how they are called are reported as all others are.
    """

    def list_commands(self, context: Any) -> list[str]:
        """Return the names in the order of FIRST; Typer has groups of commands last."""
        names = super().list_commands(context)
        return sorted(names, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> Any:
        """Run the command of these words, and end the process."""
        words = sys.argv[1:] if args is None else list(args)
        extra |= {"prog_name": "postroom", "standalone_mode": False}
        try:
            code = super().main(words, obj=Invocation(words), **extra)
        except UsageError as error:
            code = _report_usage(error, words)
        except typer.Abort:
            code = BY_SIGNAL + 2  # Ctrl-C at a question
        sys.exit(code if isinstance(code, int) else Exit.OK)


@contextmanager
def reporting(context: typer.Context) -> Iterator[None]:
    """Report the error that ends the block, and end the command with its exit code."""
    words = _words(context)
    try:
        yield
    except CommandError as error:
        write_error(_name(context), str(error), as_json=wants_json(context, words))
        raise typer.Exit(error.code) from error
    except (typer.Exit, typer.Abort, BrokenPipeError, UsageError):
        raise
    except Exception as error:
        if not logging.getLogger().handlers:
            set_up_logging("json" if wants_json(context, words) else "text", "WARNING")
        logger, message = logging.getLogger("postroom"), "postroom: %s failed: %s"
        name = _name(context).removeprefix("postroom ")
        logger.critical(message, name, error_text(error), exc_info=traceable(error))
        raise typer.Exit(Exit.PROBLEM) from error


def write_error(command: str, text: str, *, as_json: bool) -> None:
    """Write one line to standard error."""
    if as_json:
        set_up_logging("json", "INFO")
        logging.getLogger(command.replace(" ", ".")).error(text)
    else:
        print(f"{command}: {text}", file=sys.stderr)


def wants_json(context: Any, words: Sequence[str]) -> bool:
    """Tell whether errors are written as JSON; also if the options could not be read."""
    parsed = context.params if context is not None else {}
    in_file = getattr(context, "default_map", None) or {}
    sources = (parsed.get(LOG_FORMAT), _flag(words), os.environ.get(LOG_FORMAT_VARIABLE))
    return next(filter(None, sources), in_file.get(LOG_FORMAT)) == "json"


def _flag(words: Sequence[str]) -> str | None:
    """Return what `--log-format` says, as far as can be told without the parser."""
    for word, after in zip(words, (*words[1:], ""), strict=True):
        name, equals, value = word.partition("=")
        if name == "--log-format":
            return value if equals else after
    return None


def _report_usage(error: Any, words: Sequence[str]) -> int:
    """Report an error that the parser of the command line, or the reader of a value, raised."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return Exit.USAGE
    context = error.ctx
    name = _typed(words) if context is None else _name(context)
    if isinstance(error, BadValue):
        text = f"{_source(error)}{error.message}"
    else:
        message = error.format_message()
        end = "" if message.endswith((".", "?")) else "."
        text = mask(f"{message}{end} Try: {name} --help")
    write_error(name, " ".join(text.split()), as_json=wants_json(context, words))
    return Exit.USAGE


def _source(error: Any) -> str:
    """Name the source of a value that cannot be used: an option, a variable, a file."""
    parameter, context = error.param, error.ctx
    match context.get_parameter_source(parameter.name).name:
        case "ENVIRONMENT":
            return str(parameter.envvar)
        case "DEFAULT_MAP":
            return f"{parameter.name} in {context.params.get('config') or 'pyproject.toml'}"
        case _:
            return str(parameter.opts[-1] if parameter.opts else parameter.name)


def _words(context: typer.Context) -> Sequence[str]:
    return context.obj.words if isinstance(context.obj, Invocation) else ()


def _typed(words: Sequence[str]) -> str:
    """Return the command that words call, if the parser has not said which."""
    return " ".join(["postroom", *(word for word in words[:1] if not word.startswith("-"))])


def _name(context: Any) -> str:
    """Return the command as it is typed: `postroom failures retry`."""
    names = []
    while context is not None:
        names.append(context.info_name)
        context = context.parent
    return " ".join(reversed(names))
