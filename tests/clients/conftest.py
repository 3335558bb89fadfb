import pathlib
import sys
from collections.abc import Iterator

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.access import credential, write_credentials
from support.fixtures import *  # noqa: F403  (fixtures)
from support.server import Server
from support.stores import fresh_store


@pytest.fixture(scope="module")
def guarded(store_kind, tmp_path_factory) -> Iterator[Server]:
    """A server that knows `ann`, `writer` and `reader` of one tenant, and `bob` of another."""
    file = write_credentials(tmp_path_factory.mktemp("guarded") / "credentials.yaml", [
        credential("a", ("read", "write"), token="ann"),
        credential("b", ("read", "write"), token="bob"),
        credential("a", ("write",), token="writer"),
        credential("a", ("read",), token="reader"),
    ])
    with fresh_store(store_kind) as store, Server(
            store, arguments=[f"--credentials={file}"]) as server:
        yield server
