from __future__ import annotations

import pathlib
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).parent)]

import stored
from browser import Browser
from support.access import credential, write_credentials
from support.blocks import models_file
from support.http import LISTEN
from support.model_server import ModelServer
from support.paths import REPOSITORY
from support.server import Server

# What the servers of these tests have besides models.
QUICK = ["--job-retry-ms=20", "--job-attempts=3"]
TOKENS = {"all": {}, "reader": {"rights": ("read",)}, "ada": {"subject": stored.ADA},
          "ada-reader": {"subject": stored.ADA, "rights": ("read",)}, "nothing": {"rights": ("worker",)}}


@pytest.fixture(scope="session")
def pictures() -> pathlib.Path:
    folder = REPOSITORY / "build" / "ui"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def browser():
    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def models():
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def server(models, tmp_path_factory):
    """Of everybody, with everything in it."""
    arguments = [models_file(tmp_path_factory.mktemp("models"), models), LISTEN, *QUICK]
    with Server("sqlite::memory:", arguments=arguments) as running:
        stored.fill(stored.Storing(running.http), models)
        yield running


@pytest.fixture(scope="module")
def guarded(models, tmp_path_factory):
    """The same, for those who have a token."""
    folder = tmp_path_factory.mktemp("guarded")
    file = write_credentials(folder / "credentials.yaml", [
        credential("team", more.get("rights", ("read", "write", "admin")), token=token,
                   **{key: value for key, value in more.items() if key != "rights"})
        for token, more in TOKENS.items()])
    arguments = [models_file(folder, models), f"--credentials={file}", LISTEN, *QUICK]
    with Server("sqlite::memory:", arguments=arguments) as running:
        stored.fill(stored.Storing(running.http, "all"), models)
        yield running


@pytest.fixture
def call(server) -> stored.Storing:
    return stored.Storing(server.http)
