"""`celery worker` with its default settings: prefork, as many processes as there are cores."""

import asyncio
import os
from typing import Any

from celery.signals import worker_ready  # type: ignore[import-not-found]

from benchmarks.contenders.control import go, read_task


def main() -> None:
    task = read_task()
    os.environ["COMPARED_BROKER"] = task.broker
    from benchmarks.contenders.celery_tasks import app

    asyncio.run(go())
    harness = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Celery prints its banner

    def running(**_: Any) -> None:
        print("running", file=harness, flush=True)

    worker_ready.connect(running, weak=False)
    app.worker_main(["worker", "--loglevel=WARNING", f"--hostname=worker{os.getpid()}@%h"])


if __name__ == "__main__":
    main()
