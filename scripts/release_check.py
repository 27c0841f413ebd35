"""Build the release and use it as its users will: `make release-check`.

Builds the wheel and the source distribution into dist/. Installs each extra alone into an empty
environment. Follows README.md and the tutorial there, with an empty HOME. Copies each application
out and runs its tests. Runs the unit tests of the unpacked source distribution. Writes the bill of
materials to sbom/. Needs RabbitMQ and PostgreSQL, as `make services` finds them.
"""

import re
import shutil
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.copies import APPLICATIONS, Environment, run, run_copy
from tests.docs.pages import TYPED_ALONG
from tests.docs.typed_along import Reader
from tests.support.rabbitmq import temporary_vhost

ROOT = Path(__file__).parents[1]
DIST, SBOM = ROOT / "dist", ROOT / "sbom"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
USES = {
    "": "postroom; postroom.Outbox",
    "postgres": "postroom.database.asyncpg, asyncpg",
    "sqlite": "aiosqlite",
    "rabbitmq": "postroom.publishers.rabbitmq",
    "fastapi": "postroom.integrations.fastapi",
    "dishka": "postroom.integrations.dishka",
    "alembic": "postroom.integrations.alembic",
    "pydantic": "postroom.integrations.pydantic",
    "otel": "postroom.integrations.opentelemetry",
    "prometheus": "postroom.integrations.prometheus",
    "console": "postroom.console",
    "cli": "postroom.cli.app",
    "testing": "postroom.testing",
}
"""What each extra alone makes importable."""


def main() -> None:
    wheel, source = build()
    check_metadata(wheel)
    for extra, modules in USES.items():
        check_extra(wheel, extra, modules)
    for page in TYPED_ALONG:
        check_page(wheel, page)
    for application in APPLICATIONS:
        with temporary_folder() as folder:
            tell(f"examples/{application}, copied out")
            run_copy(application, Environment.create(folder, wheel), folder)
    check_source(source)
    write_bill_of_materials(wheel)
    tell("passed. The files are in dist/ and sbom/.")


def build() -> tuple[Path, Path]:
    """Build both distributions, and have their descriptions checked."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    [wheel], [source] = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, source)
    return wheel, source


def check_metadata(wheel: Path) -> None:
    """Check what the wheel holds, and that the changelog has a section for its version."""
    version = PROJECT["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text()
    require(re.search(rf"^## {re.escape(version)} ", changelog, re.MULTILINE), "no changelog")
    require(
        set(PROJECT["optional-dependencies"]) == {*USES, "all"} - {""}, "extras without a check"
    )
    names = zipfile.ZipFile(wheel).namelist()
    require("postroom/py.typed" in names, "py.typed is not in the wheel")
    require(any(name.startswith("postroom/console/templates/") for name in names), "no templates")
    tops = {name.partition("/")[0] for name in names}
    require(tops == {"postroom", f"postroom-{version}.dist-info"}, f"the wheel holds {tops}")


def check_extra(wheel: Path, extra: str, modules: str) -> None:
    """Install one extra alone, and import what it is for."""
    tell(f"postroom[{extra}]" if extra else "postroom")
    with temporary_folder() as folder:
        environment = Environment.create(folder, wheel, extra)
        run(environment.python, "-W", "error", "-c", f"import {modules}", folder=folder)
        run(environment.python, "-m", "pip", "check", folder=folder)
        if extra == "cli":
            script = environment.programs / "postroom"
            require("Usage" in run(script, "--help", folder=folder), "no help")
            require(PROJECT["version"] in run(script, "--version", folder=folder), "no version")


def check_page(wheel: Path, page: Path) -> None:
    """Follow a page in an empty environment, where its own `pip install` lines install."""
    tell(f"{page.relative_to(ROOT)}, as printed")
    with temporary_folder() as folder:
        environment = Environment.create(folder / "environment", None)
        (folder / "work").mkdir()

        def install(words: str) -> None:
            here = re.sub(r"'postroom(\[.*?\])?'", rf"'{wheel}\1'", words)
            run("sh", "-c", f"{environment.python} -m {here}", folder=folder)

        with (
            temporary_vhost() as url,
            Reader.of_broker(url, folder / "work", environment.programs, install) as reader,
        ):
            reader.follow(page)


def check_source(source: Path) -> None:
    """Run the unit tests of the unpacked source distribution, as its README says."""
    tell(f"the tests of {source.name}")
    with temporary_folder() as folder:
        with tarfile.open(source) as archive:
            archive.extractall(folder, filter="data")
        [unpacked] = folder.iterdir()
        run("make", "test", "ARGS=-q tests/unit tests/docs/test_typed_pages.py", folder=unpacked)


def write_bill_of_materials(wheel: Path) -> None:
    """Write what an installation with all extras consists of, as CycloneDX."""
    SBOM.mkdir(exist_ok=True)
    with temporary_folder() as folder:
        environment = Environment.create(folder, wheel, "all")
        target = SBOM / f"postroom-{PROJECT['version']}.cdx.json"
        words = ["--pyproject", "pyproject.toml", "--of", "JSON", "-o", str(target)]
        cyclonedx = Path(sys.executable).with_name("cyclonedx-py")
        run(cyclonedx, "environment", *words, environment.python)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        yield Path(folder)


def require(holds: object, otherwise: str) -> None:
    if not holds:
        raise SystemExit(f"release-check: {otherwise}")


def tell(what: str) -> None:
    print(f"release-check: {what}", flush=True)


if __name__ == "__main__":
    main()
