"""Run the tests in random orders, on 1 to 6 pytest workers, every second time on a busy machine.

Run as `make test-orders`, or `python -m scripts.orders --runs 20`. With `--freeze 4`, one pytest
worker after the other is frozen for up to 4 seconds. Prints a line for each run, and writes what
pytest said below .services/orders/.
"""

import argparse
import os
import random
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

WORKERS = (1, 2, 3, 4, 6)
BUSY = 4
LOGS = Path(".services/orders")


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Have so many processes that use all the time they get."""
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for each in processes:
            each.kill()
            each.wait()


def freeze_children(of: subprocess.Popen[bytes], longest: float) -> None:
    """Stop one child of a process after the other for a moment, until the process ends."""
    children = Path(f"/proc/{of.pid}/task/{of.pid}/children")
    while of.poll() is None:
        time.sleep(random.uniform(0, longest))
        with suppress(OSError, IndexError):  # it has just ended
            child = int(random.choice(children.read_text().split()))
            os.kill(child, signal.SIGSTOP)
            time.sleep(random.uniform(0, longest))
            os.kill(child, signal.SIGCONT)


def run(seed: int, workers: int, freeze: float, selected: list[str]) -> tuple[int, str]:
    """Run the tests once; give pytest's exit code and its last line."""
    log = LOGS / f"{seed}.log"
    command = [sys.executable, "-m", "pytest", "-n", str(workers), f"--randomly-seed={seed}"]
    with log.open("w") as out:
        pytest = subprocess.Popen([*command, *selected], stdout=out, stderr=subprocess.STDOUT)
        if freeze:
            freeze_children(pytest, freeze)
        code = pytest.wait()
    last = [line for line in log.read_text().splitlines() if re.search(r" in [\d.]+s", line)]
    return code, last[-1].strip("= ") if last else f"see {log}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--freeze", type=float, default=0, metavar="SECONDS")
    parser.add_argument("tests", nargs="*", default=["-m", "not extended"])
    options = parser.parse_args()
    LOGS.mkdir(parents=True, exist_ok=True)
    failed = 0
    for number in range(options.runs):
        seed, workers = secrets.randbelow(2**32), WORKERS[number % len(WORKERS)]
        busy = BUSY if number % 2 else 0
        begun = time.monotonic()
        with busy_processes(busy):
            code, summary = run(seed, workers, options.freeze, options.tests)
        failed += code != 0
        minutes = (time.monotonic() - begun) / 60
        how = f"seed {seed:>10}  {workers} workers  {busy} busy  {minutes:4.1f} min"
        print(f"{how}  {summary}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
