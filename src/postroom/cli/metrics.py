"""The metrics of a worker, for Prometheus: `/metrics` on its health port."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus

from postroom.cli.health import ROUTES, Answer, AskInLoop, Route
from postroom.relay.relay import OutboxRelay

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MISSING = {"error": "metrics need the extra `prometheus`: pip install 'postroom[prometheus]'"}


@contextmanager
def metrics_of(relay: OutboxRelay) -> Iterator[Mapping[str, Route]]:
    """Measure a relay for as long as the block lasts; yield the routes of the health port.

    The metrics are added to the default registry, unless the user's module has done that: whatever
    its handlers define there is exported, too.
    """
    try:
        from prometheus_client import REGISTRY, generate_latest

        from postroom.integrations.prometheus import OutboxCollector
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        yield {**ROUTES, "/metrics": _missing}
        return

    def metrics(_ask: AskInLoop, _details: bool) -> Answer:
        return Answer(HTTPStatus.OK, generate_latest(REGISTRY), CONTENT_TYPE)

    routes = {**ROUTES, "/metrics": metrics}
    collector = OutboxCollector()
    try:
        REGISTRY.register(collector)
    except ValueError:  # the module has registered its own
        yield routes
        return
    relay.observe(collector.observer(relay.outbox))
    try:
        yield routes
    finally:
        REGISTRY.unregister(collector)


def _missing(_ask: AskInLoop, _details: bool) -> Answer:
    return Answer.json(HTTPStatus.NOT_IMPLEMENTED, MISSING)
