"""Signs somebody up with the dispatcher that runs handlers at once, and nothing else changed."""

import asyncio
import logging
import sys

from dishka import AsyncContainer, Provider, Scope, provide

from accounts.account.application.sign_up import SignUp, SignUpHandler
from accounts.account.domain.password import Password
from accounts.container import make_container
from accounts.settings import Settings
from postroom import EventDispatcher, InProcessEventDispatcher
from tests.examples.accounts.people import PASSWORD


class InProcessProvider(Provider):
    @provide(scope=Scope.REQUEST)
    def dispatcher(self, container: AsyncContainer) -> EventDispatcher:
        return InProcessEventDispatcher(container)


async def main(email: str) -> None:
    container = make_container(Settings(), InProcessProvider())
    async with container() as request:
        handler = await request.get(SignUpHandler)
        account = await handler.handle(SignUp(email=email, password=Password(PASSWORD)))
    await container.close()
    print(account.account_id)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main(*sys.argv[1:]))
