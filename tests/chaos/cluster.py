"""A cluster of RabbitMQ nodes of the tests' own, which they may kill."""

import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.chaos.broker import Broker


class Cluster:
    """Three nodes: a quorum queue survives the loss of one."""

    def __init__(self, nodes: Sequence[Broker]) -> None:
        self.nodes = nodes

    @property
    def url(self) -> str:
        """One URL that names every node."""
        return f"amqp://guest:guest@{','.join(f'127.0.0.1:{each.port}' for each in self.nodes)}/"

    def node_in(self, text: str) -> Broker:
        """Return the node whose address is in a text."""
        [found] = [each for each in self.nodes if f":{each.port}/" in text]
        return found


@contextmanager
def private_cluster() -> Iterator[Cluster]:
    """Make a cluster and start it; nothing is left of it afterwards."""
    with ExitStack() as stack:
        first = Broker(_home(stack))
        nodes = [first, *(Broker(_home(stack), beside=first) for _ in range(2))]
        for node in nodes:
            node.create()
            stack.callback(_end, node)
        first.start()
        with ThreadPoolExecutor() as pool:
            list(pool.map(Broker.start, nodes[1:]))
        for node in nodes:
            assert node.cluster_size() == len(nodes), f"no cluster was formed: {node.last_words()}"
        yield Cluster(nodes)


def _home(stack: ExitStack) -> Path:
    # It may still write a file or two while its directory is removed.
    made = tempfile.TemporaryDirectory(prefix="postroom-chaos-", ignore_cleanup_errors=True)
    return Path(stack.enter_context(made))


def _end(node: Broker) -> None:
    if node.runs:
        node.kill()
