"""Where the services are: in the environment, else in what `make services` wrote."""

import os
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pytest

WRITTEN = Path(__file__).parents[2] / ".services" / "env"
SESSION = os.environ.setdefault("POSTROOM_TEST_SESSION", uuid4().hex[:8])
"""The session's id, which the workers of pytest-xdist inherit."""
OWN = f"postroom_{SESSION}_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}_"
"""The beginning of all names that this process gives to databases, roles, vhosts and users."""

SECRET = "s3cr:t/p@ss#%?&"
"""The password of roles in PostgreSQL, of characters that are hard to write in a URL."""
BROKER_SECRET = "br0ker:p@ss/w%rd?"
"""The password of users of RabbitMQ."""
SECRETS = tuple(form for each in (SECRET, BROKER_SECRET) for form in (each, quote(each, safe="")))
"""What nothing that is written may contain."""


def own_name(what: str) -> str:
    """Make a name for a server that no other test has."""
    return f"{OWN}{what}_{uuid4().hex[:8]}"


def service_url(variable: str) -> str:
    """The URL in an environment variable or in .services/env; without one the test fails."""
    url = os.environ.get(variable) or _written().get(variable)
    if not url:
        raise missing(f"{variable} is not known")
    return url


def missing(what: str) -> BaseException:
    """What to raise: the test fails, it never skips, with one line that says what to do."""
    return pytest.fail.Exception(f"{what}: run `make services`", pytrace=False)


def _written() -> dict[str, str]:
    if not WRITTEN.exists():
        return {}
    lines = WRITTEN.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)
