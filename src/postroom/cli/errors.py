"""The errors that end a command: one line for the user, and an exit code for the shell."""

import sysconfig
from enum import IntEnum
from pathlib import Path
from traceback import extract_tb

from postroom.errors import error_text


class Exit(IntEnum):
    """The exit codes of a command."""

    OK = 0
    """The command did what it was asked to do, and found no problem."""
    PROBLEM = 1
    """A problem was found, as the output says; or an unexpected error, as the log says."""
    USAGE = 2
    """An option, a setting, the user's module or an extra is wrong or missing."""
    DATABASE = 3
    """The database cannot be used: not reached, or the login or a permission is refused."""
    SCHEMA = 4
    """The outbox tables are missing, or differ from what this version needs."""
    BROKER = 5
    """The broker cannot be used, or does not agree with the topology."""


BY_SIGNAL = 128
"""Added to the number of a signal: the exit code of a command that the signal stopped."""


class CommandError(Exception):
    """Raised when a command cannot go on. Its text is one line, with the remedy."""

    def __init__(self, text: str, code: Exit = Exit.USAGE) -> None:
        self.code = code
        super().__init__(" ".join(text.split()))


EXTRAS = {
    "asyncpg": "postgres",
    "aiosqlite": "sqlite",
    "pamqp": "rabbitmq",
    "dishka": "dishka",
    "fastapi": "fastapi",
    "alembic": "alembic",
    "pydantic": "pydantic",
    "starlette": "console",
    "jinja2": "console",
    "markupsafe": "console",
    "uvicorn": "console",
}


SYNC_DRIVERS = ("psycopg", "psycopg2")
URL_PARSER = ("sqlalchemy", "engine", "url.py")


def missing_extra(error: ModuleNotFoundError) -> CommandError | None:
    """Name the extra that a missing module belongs to, if it is one of ours."""
    extra = EXTRAS.get((error.name or "").partition(".")[0])
    if extra is None:
        return None
    return CommandError(f"{error.name} is not installed. Run: pip install 'postroom[{extra}]'")


def raised_by_user(error: BaseException) -> str:
    """Say what a user's own module raised, and in which line; not the line, which may be secret."""
    frames = extract_tb(error.__traceback__)
    text = f"{type(error).__name__}: {error_text(error)}".rstrip(".")
    if Path(frames[-1].filename).parts[-3:] == URL_PARSER:
        text = "the URL of a database cannot be read"  # its error may say a piece of the password
    if lines := [
        f"{_short(name)}, line {number}" for name, number, *_ in frames if _is_users(name)
    ]:
        text = f"{lines[-1]}: {text}"
    return f"{text}.{_driver_remedy(error)}"


def _driver_remedy(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name in SYNC_DRIVERS:
        return " SQLAlchemy needs it for postgresql://. Write postgresql+asyncpg://."
    if type(error).__name__ == "InvalidRequestError" and "async driver" in str(error):
        return " Write postgresql+asyncpg://, or sqlite+aiosqlite://."
    return ""


def _is_users(filename: str) -> bool:
    libraries = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
    ours = str(Path(__file__).parents[1])
    return not filename.startswith((*libraries, ours, "<"))


def _short(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
