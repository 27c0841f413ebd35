"""Each application works outside the repository, against the wheel that users get."""

import sys
from pathlib import Path

import pytest

from scripts.copies import APPLICATIONS, ROOT, Environment, run, run_copy

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """One for all three, which takes less time; `make release-check` makes one for each."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT)
    [wheel] = folder.glob("*.whl")
    return Environment.create(tmp_path_factory.mktemp("environment"), wheel)


@pytest.mark.parametrize("application", APPLICATIONS)
def test_a_copy_of_an_application_passes_its_tests(
    application: str, environment: Environment, tmp_path: Path
) -> None:
    assert " passed" in run_copy(application, environment, tmp_path)
