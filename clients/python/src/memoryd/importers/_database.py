"""The databases that are read: SQLite and PostgreSQL, neither ever written to."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

# Of a document as text. No request to memoryd has more than 36 MiB by default, of which JSON of
# media makes 48, and JSON that escapes all that it can six times as much: such a text is smaller.
MAX_DOCUMENT_BYTES = 64 << 20
_PAGE_KEYS = 1000

Row = tuple[Any, ...]


class DatabaseError(Exception):
    """What can't be read, and why, in words for whoever runs the import."""


class DatabaseLost(DatabaseError):
    """The connection is gone, so that nothing can be read any more."""


class Database(Protocol):
    """A connection. Of its iterators one at a time may be under way, from any thread."""

    def rows(self, statement: str, arguments: Sequence[Any] = ()) -> Iterator[Row]:
        """The rows of a SELECT as it finds the tables now, read from the database one by one as
        they are taken. `mark` stands for an argument. Raises DatabaseError."""

    mark: str

    def quoted(self, name: str) -> str:
        """A name of a table or column as it stands in a statement."""

    def text(self, column: str) -> str:
        """SQL for a column's value as text."""

    def document(self, column: str) -> str:
        """SQL for two values: the column as bytes or text, null when it has more than
        MAX_DOCUMENT_BYTES, and how many it has."""

    def seconds(self, column: str) -> str:
        """SQL for a time as seconds since 1970, in text."""

    def close(self) -> None: ...


def open_database(url: str) -> Database:
    """The database that SQLAlchemy knows by this URL, whatever its driver there, or a SQLite file
    of this name, with memoryd's own `sqlite:` before it or without. Raises DatabaseError."""
    scheme, has_scheme, rest = url.partition("://")
    kind = scheme.partition("+")[0]
    if not has_scheme:
        return _SQLite(url.removeprefix("sqlite:"))
    if kind == "sqlite":
        # Three slashes before a relative path, four before an absolute one.
        path = rest.partition("?")[0].removeprefix("/")
        if not path:
            raise DatabaseError(f"--database: {url} names no file: write {scheme}:///chat.db for "
                                f"one in the working folder, {scheme}:////PATH for one anywhere")
        return _SQLite(path)
    if kind in ("postgresql", "postgres"):
        return _PostgreSQL(f"postgresql://{rest}")
    raise DatabaseError(f"--database: {kind} is neither sqlite nor postgresql")


def require_columns(database: Database, table: str, names: Sequence[str], written_by: str) -> None:
    """Raises DatabaseError unless `table`, as it stands in a statement, has these columns."""
    wanted = ", ".join(database.quoted(name) for name in names)
    try:
        list(database.rows(f"SELECT {wanted} FROM {table} WHERE 1 = 0"))
    except DatabaseError as error:
        raise DatabaseError(f"{table} is no table of {written_by}'s: {error}") from error


def keys(database: Database, table: str, column: str) -> Iterator[str]:
    """The values of a column but null, each once, in the database's order."""
    name = database.quoted(column)
    behind = f"{name} IS NOT NULL"
    arguments: tuple[str, ...] = ()
    while True:
        page = [row[0] for row in database.rows(
            f"SELECT {database.text(name)} FROM {table} WHERE {behind} GROUP BY {name} "
            f"ORDER BY {name} LIMIT {_PAGE_KEYS}", arguments)]
        yield from page
        if len(page) < _PAGE_KEYS:
            return
        behind, arguments = f"{name} > {database.mark}", (page[-1],)


class _SQLite:
    mark = "?"

    def __init__(self, path: str) -> None:
        if not os.path.isfile(path):
            raise DatabaseError(f"--database: there is no file {path!r}")
        # An iterator is taken on the client's thread.
        self._connection = sqlite3.connect(f"file:{urllib.parse.quote(path)}?mode=ro", uri=True,
                                           check_same_thread=False)
        self._connection.text_factory = lambda text: text.decode(errors="replace")

    def rows(self, statement: str, arguments: Sequence[Any] = ()) -> Iterator[Row]:
        with contextlib.closing(self._connection.cursor()) as cursor:
            try:
                yield from cursor.execute(statement, arguments)
            except sqlite3.Error as error:
                raise DatabaseError(str(error)) from error

    def quoted(self, name: str) -> str:
        # Between double quotes a name that there is not would be a text.
        return "`" + name.replace("`", "``") + "`"

    def text(self, column: str) -> str:
        return f"CAST({column} AS TEXT)"

    def document(self, column: str) -> str:
        # What is no UTF-8 is a fault of its row alone.
        given = f"CAST({column} AS BLOB)"
        return (f"CASE WHEN length({given}) <= {MAX_DOCUMENT_BYTES} THEN {given} END, "
                f"length({given})")

    def seconds(self, column: str) -> str:
        return f"CAST(strftime('%s', {column}) AS TEXT)"

    def close(self) -> None:
        self._connection.close()


class _PostgreSQL:
    mark = "%s"

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise DatabaseError("PostgreSQL is read with psycopg, which is not there: pip install "
                                "'memoryd[importers]'") from error
        self._error = psycopg.Error
        try:
            # Without prepared statements, which not every pooler keeps.
            self._connection = psycopg.connect(url, prepare_threshold=None)
        except psycopg.Error as error:
            raise DatabaseError(f"--database: {str(error).strip()}") from error
        self._connection.read_only = True

    def rows(self, statement: str, arguments: Sequence[Any] = ()) -> Iterator[Row]:
        try:
            with self._connection.transaction(), self._connection.cursor() as cursor:
                yield from cursor.stream(statement.encode(), arguments)
        except self._error as error:
            failure = DatabaseLost if self._connection.closed else DatabaseError
            raise failure(str(error).strip()) from error

    def quoted(self, name: str) -> str:
        doubled = name.replace('"', '""').replace("%", "%%")
        return f'"{doubled}"'

    def text(self, column: str) -> str:
        return f"CAST({column} AS text)"

    def document(self, column: str) -> str:
        given = f"CAST({column} AS text)"
        return (f"CASE WHEN octet_length({given}) <= {MAX_DOCUMENT_BYTES} THEN {given} END, "
                f"octet_length({given})")

    def seconds(self, column: str) -> str:
        return f"CAST(EXTRACT(EPOCH FROM {column}) AS text)"

    def close(self) -> None:
        self._connection.close()
