"""A cluster of RabbitMQ nodes of the tests' own, which they may kill."""

import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.chaos.broker import Broker, erlang_names


class Cluster:
    """Three nodes: a quorum queue survives the loss of one."""

    def __init__(self, nodes: Sequence[Broker]) -> None:
        self.nodes = nodes

    @property
    def url(self) -> str:
        """One URL that names every node."""
        return f"amqp://guest:guest@{','.join(f'127.0.0.1:{each.port}' for each in self.nodes)}/"

    def heal(self) -> None:
        """Start the nodes that were killed."""
        for node in self.nodes:
            if not node.runs:
                node.start()
        self.check()

    def check(self) -> None:
        """See that every node knows all others."""
        for node in self.nodes:
            size = node.cluster_size()
            assert size == len(self.nodes), f"a cluster of {size} nodes: {node.last_words()}"

    def node_in(self, text: str) -> Broker:
        """Return the node whose address is in a text."""
        [found] = [each for each in self.nodes if f":{each.port}/" in text]
        return found


@contextmanager
def private_cluster() -> Iterator[Cluster]:
    """Make a cluster and start it; nothing is left of it afterwards."""
    with erlang_names() as port, ExitStack() as stack:
        first = Broker(_home(stack), names_port=port)
        others = [Broker(_home(stack), names_port=port, beside=first) for _ in range(2)]
        nodes = [first, *others]
        for node in nodes:
            node.create()
            stack.callback(_end, node)
        first.start()
        with ThreadPoolExecutor() as pool:
            list(pool.map(Broker.start, others))
        cluster = Cluster(nodes)
        cluster.check()
        yield cluster


def _home(stack: ExitStack) -> Path:
    # It may still write a file or two while its directory is removed.
    made = tempfile.TemporaryDirectory(prefix="postroom-chaos-", ignore_cleanup_errors=True)
    return Path(stack.enter_context(made))


def _end(node: Broker) -> None:
    if node.runs:
        node.kill()
