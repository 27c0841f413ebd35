"""What a test leaves on a server fails that test."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import ROOT

UNTIDY = """
import psycopg, pytest
from sqlalchemy import make_url
from tests.support.postgres import drop_database
from tests.support.rabbitmq import administration
from tests.support.services import own_name

DATABASE, VHOST, USER = own_name("left"), own_name("left_vhost"), own_name("left_user")

@pytest.fixture(scope="session")
def server(postgres_url):
    yield (server := make_url(postgres_url).set(drivername="postgresql"))
    drop_database(server, DATABASE)
    administration().delete(VHOST)
    administration().delete_user(USER)

def test_untidy(server, rabbitmq_url):
    address = server.render_as_string(hide_password=False)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}")
        connection.execute("CREATE TABLE left_behind ()")
        connection.execute("CREATE FUNCTION left_over() RETURNS int LANGUAGE sql AS 'SELECT 1'")
    administration().create(VHOST)
    administration().create_user(USER, "secret")

def test_tidy(rabbitmq_url):
    pass
"""
NAMED = ("database ", "function left_over", "table left_behind", "_left_user_", "_left_vhost_")


@pytest.mark.extended
def test_each_kind_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "test_untidy.py").write_text(UNTIDY)
    plugins = ("-p", "conftest", "-p", "no:randomly", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *plugins, f"--rootdir={tmp_path}", str(tmp_path)]
    given = {**os.environ, "POSTROOM_TEST_PATIENCE": "0.5"}
    done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True)
    [line] = [line for line in done.stdout.splitlines() if line.startswith("left behind: ")]
    assert [what for what in NAMED if what not in line] == []
