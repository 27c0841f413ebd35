"""Pages with one generated table: exit codes, versions, the comparison with peers."""

import json
import re
import signal
import tomllib

from benchmarks.compare.report import markdown, recovery
from postroom.cli.errors import BY_SIGNAL, Exit
from postroom.database.errors import KINDS
from scripts.reference.blocks import ROOT, Block, Hand, Table, code, text_block
from scripts.versions import PYTHONS

REQUIREMENT = re.compile(r"^([\w-]+)(?:\[[\w,]+\])?(.*)$")


def exit_codes() -> dict[str, Block]:
    """Return the exit codes of all commands."""
    rows = [(str(int(each)), each.name, Hand()) for each in Exit]
    interrupt, end, pipe = (
        BY_SIGNAL + it for it in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
    )
    text = f"{interrupt} by Ctrl-C, {end} by SIGTERM, {pipe} if nobody reads the output"
    by_signal = f"{BY_SIGNAL} + n", "", f"stopped by signal n: {text}"
    return {"codes": Table(("code", "name", "meaning"), [*rows, by_signal])}


def database_errors() -> dict[str, Block]:
    """Return what each SQLSTATE, or class of them, means."""
    rows = [(code(state), Hand(), kind.value) for state, kind in KINDS.items()]
    return {"states": Table(("SQLSTATE", "PostgreSQL says", "means"), rows)}


def versions() -> dict[str, Block]:
    """Return the versions of Python and of libraries that pyproject.toml allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {"": project["dependencies"], **project["optional-dependencies"]}
    rows = [("Python", ", ".join(PYTHONS), "")]
    for extra, requirements in extras.items():
        for each in requirements if extra != "all" else ():
            [(name, allowed)] = REQUIREMENT.findall(each)
            rows.append((name, code(allowed), code(extra) if extra else ""))
    return {"libraries": Table(("what", "supported", "extra"), rows)}


def comparison() -> dict[str, Block]:
    """Return what arrived after each fault, and how soon, as it was measured."""
    measured = json.loads((ROOT / "docs/explanation/comparison.json").read_text())
    return {"arrived": text_block(markdown(measured)), "recovery": text_block(recovery(measured))}
