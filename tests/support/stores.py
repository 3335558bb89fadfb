"""The stores that every test runs on."""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator

from support.pgbouncer import PORT_VARIABLE
from support.postgres import at_port, temporary_database

STORES = ("sqlite", "postgresql")
OTHER = {"sqlite": "postgresql", "postgresql": "sqlite"}


@contextlib.contextmanager
def fresh_store(kind: str) -> Iterator[str]:
    """The value of --store for an empty store of this kind; it is removed afterwards. PostgreSQL's
    is reached through a PgBouncer where PORT_VARIABLE names one."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="memoryd-sqlite-") as folder:
            yield f"sqlite:{pathlib.Path(folder) / 'memory.db'}"
    elif kind == "postgresql":
        port = os.environ.get(PORT_VARIABLE)
        with temporary_database() as url:
            yield at_port(url, int(port)) if port else url
    else:
        raise ValueError(f"unknown store {kind}")
