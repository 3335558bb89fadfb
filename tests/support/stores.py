"""The stores that every test runs on."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator

from support.postgres import temporary_database

STORES = ("sqlite", "postgresql")


@contextlib.contextmanager
def fresh_store(kind: str) -> Iterator[str]:
    """The value of --store for an empty store of this kind; it is removed afterwards."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="memoryd-sqlite-") as folder:
            yield f"sqlite:{pathlib.Path(folder) / 'memory.db'}"
    elif kind == "postgresql":
        with temporary_database() as url:
            yield url
    else:
        raise ValueError(f"unknown store {kind}")
