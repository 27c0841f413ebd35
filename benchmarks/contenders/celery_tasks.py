"""A Celery application with its default settings; its task hands the event on to the exchange."""

import os
from typing import Any

from celery import Celery  # type: ignore[import-not-found]
from kombu import Exchange, Queue  # type: ignore[import-not-found]

from benchmarks.contenders.control import EXCHANGE, ROUTING_KEY

app = Celery("orders", broker=os.environ.get("COMPARED_BROKER"))
BOUNDED = int(os.environ.get("COMPARED_BOUND", "0"))
"""The limit of the queue in bytes, for the fault that fills it."""
if BOUNDED:
    limits = {"x-max-length-bytes": BOUNDED, "x-overflow": "reject-publish"}
    app.conf.task_queues = [
        Queue("celery", Exchange("celery"), routing_key="celery", queue_arguments=limits)
    ]


@app.task  # type: ignore[untyped-decorator]
def announce(payload: dict[str, Any]) -> None:
    """Hand the event on, so that the order in which tasks run can be seen."""
    with app.producer_pool.acquire(block=True) as producer:
        producer.publish(
            payload, exchange=EXCHANGE, routing_key=ROUTING_KEY, serializer="json", declare=[]
        )
