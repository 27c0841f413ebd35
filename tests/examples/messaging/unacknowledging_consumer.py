"""The consumer of messaging, except that it stops before it acknowledges a queued message."""

import asyncio
from unittest.mock import patch

from aio_pika import IncomingMessage

from messaging.consumer import main

acknowledge = IncomingMessage.ack


async def stop_before(message: IncomingMessage, multiple: bool = False) -> None:
    if message.type == "group_message.queued":
        print(f"committed {message.message_id}", flush=True)
        await asyncio.Event().wait()
    await acknowledge(message, multiple)


if __name__ == "__main__":
    with patch.object(IncomingMessage, "ack", stop_before):
        main()
