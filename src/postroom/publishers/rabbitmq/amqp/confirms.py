"""A channel that publishes and receives confirmations."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from pamqp import commands, header

from postroom.publishers.rabbitmq.amqp import frames
from postroom.publishers.rabbitmq.amqp.channel import Channel
from postroom.publishers.rabbitmq.amqp.connection import Connection
from postroom.publishers.rabbitmq.amqp.errors import ClosedError, EncodeError
from postroom.publishers.rabbitmq.amqp.outgoing import Answer, Batch, Outgoing

CHUNK: Final = 256 * 1024
"""Bytes to gather before they are written."""
LOOK_EVERY: Final = 1.0
"""Seconds between looks at a broker that has messages to answer."""
ASK_AFTER: Final = 2
"""After so many looks in a row without a sign of life, the broker is asked for one ..."""
LOST_AFTER: Final = 5
"""... and after so many it is lost. Counted, so that a pause of this process does not count."""


class ConfirmChannel(Channel):
    """Publishes with confirms. A message in flight, on whichever channel, is never sent twice."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._tags: dict[int, Outgoing] = {}
        self._last_tag = 0
        self._lowest = 1
        self._return: commands.Basic.Return | None = None
        self._nacked = self._retired = False
        self._calls = 0
        """How many calls of `deliver` are under way."""
        self._next_look: asyncio.TimerHandle | None = None
        self._silent_looks = 0
        self._heard = self._unsent = 0.0
        """When the broker was last heard, and how many bytes were unsent, at the last look."""

    @property
    def usable(self) -> bool:
        """Whether messages can be sent by it: it is open, and the broker has rejected none.

        After the loss of a node, a channel of RabbitMQ 3.10 can go on asking that node for the
        leader of a quorum queue, and reject every message; a new channel finds the new leader.
        """
        return self.closed is None and not self._nacked

    async def prepare(self) -> None:
        """Have messages confirmed."""
        await self.ask(commands.Confirm.Select(), commands.Confirm.SelectOk)

    # -- sending

    async def deliver(self, messages: Sequence[Outgoing], *, within: float) -> None:
        """Send messages, and wait until each is answered.

        Raises ClosedError, BlockedError, and TimeoutError if answers take too long.
        """
        batch = Batch(messages)
        self._calls += 1
        try:
            await self._send(messages, within)
            async with asyncio.timeout(within):  # begins here: the broker is at work meanwhile
                while not await batch.complete():  # some went by a channel that has been closed
                    await self._send(messages, within)
        finally:
            self._calls -= 1
            self._close_retired()

    def retire(self) -> None:
        """Close it as soon as every message that was sent by it is answered."""
        self._retired = True
        self._close_retired()

    def _close_retired(self) -> None:
        if self._retired and not self._calls and not self._tags:
            self.close()

    async def _send(self, messages: Sequence[Outgoing], within: float) -> None:
        """Send those that are not in flight."""
        gathered: list[Outgoing] = []
        data: list[bytes] = []
        size = 0
        for each in messages:
            if each.in_flight or each.answer is not None or not self._encode(each, data):
                continue
            gathered.append(each)
            size += len(each.message[0]) + len(each.message[1])
            if size >= CHUNK:
                self._write(gathered, data)
                gathered, data, size = [], [], 0
                async with asyncio.timeout(within):
                    await self.connection.drain()
        self._write(gathered, data)
        self._check()

    def _check(self) -> None:
        if self.closed is not None:
            raise self.closed
        self.connection.check_blocked()

    def _encode(self, each: Outgoing, data: list[bytes]) -> bool:
        """Add the frames of a message to `data`, or settle it as unfit."""
        try:
            where = frames.publish(self.number, *each.place)
            what = frames.message(self.number, each.message, self.connection.frame_max)
        except (EncodeError, UnicodeError) as error:
            each.settle(Answer.UNFIT, str(error))
            return False
        data.append(where)
        data += what
        return True

    def _write(self, messages: Sequence[Outgoing], data: Sequence[bytes]) -> None:
        """Write whole messages: tags count them in the order in which the broker sees them."""
        if not messages:
            return
        self._check()
        self.connection.write(b"".join(data))
        for each in messages:
            self._last_tag += 1
            self._tags[self._last_tag] = each
            each.in_flight = True
        if self._next_look is None:
            self._silent_looks = 0
            self._heard, self._unsent = self.connection.heard, self.connection.unsent
            self._look_later()

    # -- a broker that is silent

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._next_look = loop.call_later(LOOK_EVERY, self._look)

    def _look(self) -> None:
        """Ask a broker for a sign of life if it is silent and has messages to answer.

        Without one it is lost. One that is slow to confirm still answers questions.
        """
        self._next_look = None
        if not self._tags:
            return
        connection = self.connection
        sign = connection.heard != self._heard or connection.unsent < self._unsent
        self._heard, self._unsent = connection.heard, connection.unsent
        self._silent_looks = 0 if sign or connection.blocked else self._silent_looks + 1
        if self._silent_looks >= LOST_AFTER:
            silent = f"{LOST_AFTER * LOOK_EVERY:.0f} s, with {len(self._tags)} messages unconfirmed"
            reason = f"nothing was received from the broker for {silent}"
            connection.give_up(ClosedError(0, reason, connection=True))
            return
        if self._silent_looks == ASK_AFTER:
            connection.send(commands.Confirm.Select(), self.number)
        self._look_later()

    # -- what the connection calls

    def confirm(self, tag: int, *, multiple: bool, ack: bool) -> None:
        """Take an ack or a nack, of one message or of all up to it."""
        if not 0 < tag <= self._last_tag:
            never = f"the broker confirmed message {tag}, which was never sent"
            raise ClosedError(0, never, connection=True)
        for number in range(self._lowest, tag + 1) if multiple else (tag,):
            message = self._tags.pop(number, None)
            if message is not None:
                self.connection.answers += 1
                if not ack:
                    self._nacked = True
                    message.settle(Answer.NACK)
                elif message.returned is None:
                    message.settle(Answer.ACK)
                else:
                    message.settle(Answer.RETURNED, message.returned)
        if multiple:
            self._lowest = max(self._lowest, tag + 1)
        if self._retired:
            self._close_retired()

    def take(self, received: Any) -> None:
        """Take any other frame."""
        match received:
            case commands.Basic.Return():
                self._return = received
            case header.ContentHeader():
                self._returned(received.properties.message_id)
            case _:
                super().take(received)

    def lose(self, error: ClosedError) -> None:
        """Take note that nothing more will come: what is not answered has to be sent again."""
        super().lose(error)
        lost, self._tags = self._tags, {}
        for message in lost.values():
            message.in_flight, message.returned = False, None
            message.wake()

    def block(self) -> None:
        """Wake every `deliver` that waits: there will be no answer for a while."""
        for message in self._tags.values():
            message.wake()

    def _returned(self, message_id: str | None) -> None:
        """Note that a message came back; its ack follows."""
        back, self._return = self._return, None
        if back is None:
            return
        name = (message_id, (back.exchange, back.routing_key))
        sent = (each for each in self._tags.values() if (str(each.id), each.place) == name)
        message = next(sent, None)
        if message is None:  # whose ack is then not to be believed?
            never = f"the broker returned message {name}, which was never sent"
            raise ClosedError(0, never, connection=True)
        message.returned = f"{back.reply_code} {back.reply_text}"
