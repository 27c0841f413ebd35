"""Runs `postroom doctor`'s checks on an outbox, and does what its remedies say."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import URL, MetaData, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from postroom.doctor import Finding, Level, Subject, examine
from postroom.outbox import Outbox


@dataclass
class Checks:
    """One outbox, and the engine of the role that the checks are made for."""

    outbox: Outbox
    engine: AsyncEngine
    admin: AsyncEngine
    """Of a role that may do everything."""

    async def findings(self, check: str, **options: Any) -> list[Finding]:
        """Run the checks up to one of them, and give what it has found."""
        subject = Subject(outbox=self.outbox, engine=self.engine, place="the shop", **options)
        async for result in examine(subject):
            if check in (result.check, f"{result.subject} {result.check}"):
                return list(result.findings)
        raise AssertionError(f"no check is called {check}")

    async def problem(self, check: str, **options: Any) -> Finding:
        """Give the one problem that a check has found."""
        return await self.only(check, Level.PROBLEM, **options)

    async def note(self, check: str, **options: Any) -> Finding:
        """Give the one note of a check."""
        return await self.only(check, Level.NOTE, **options)

    async def only(self, check: str, level: Level, **options: Any) -> Finding:
        found = await self.findings(check, **options)
        [finding] = [each for each in found if each.level == level]
        assert finding.remedy
        return finding

    async def is_fine(self, check: str, **options: Any) -> bool:
        """Tell whether a check has nothing to say."""
        return {each.level for each in await self.findings(check, **options)} == {Level.OK}

    async def run(self, *statements: str) -> None:
        """Run statements, each by itself, as somebody who may."""
        async with self.admin.connect() as connection:
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            for each in statements:
                await connection.execute(text(each.replace(":", r"\:")))

    async def apply_remedy(self, finding: Finding) -> None:
        """Run the SQL of a finding's remedy."""
        statements = [each for each in finding.remedy if each.split()[0].isupper()]
        assert statements, finding
        await self.run(*statements)


@asynccontextmanager
async def checks_at(url: URL) -> AsyncIterator[Checks]:
    """Create an outbox in a database, and drop it at the end."""
    engine = create_async_engine(url)
    outbox = Outbox(MetaData())
    async with engine.begin() as connection:
        await connection.run_sync(outbox.create_tables)
    yield Checks(outbox, engine, engine)
    async with engine.begin() as connection:
        await connection.run_sync(outbox.metadata.drop_all)
    await engine.dispose()
