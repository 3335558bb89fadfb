"""`python -m memoryd.importers`, see --help."""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import sys
from collections.abc import Callable

import grpc

from memoryd import Client, MemorydError, _environment
from memoryd.importers._database import Database, DatabaseError, open_database
from memoryd.importers._importing import Import, Outcome
from memoryd.importers._sessions import Source

_EXIT_CODES = """exit codes:
  0  every session was imported
  1  some could not be, or the server or the database went away
  2  nothing was begun: wrong arguments, or the database can't be read
  3  every session is in memoryd, and some were there before
"""


def main(arguments: list[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    with contextlib.ExitStack() as closing:
        try:
            database = closing.enter_context(contextlib.closing(open_database(given.database)))
            source = _source(given, database)
            client = None if given.dry_run else closing.enter_context(_client(given))
        except ImportError as error:
            return _failed(2, f"{error}: pip install 'memoryd[{given.source}]'")
        except (DatabaseError, OSError, ValueError) as error:
            return _failed(2, str(error))
        return _run(source, client, given)


def _run(source: Source, client: Client | None, given: argparse.Namespace) -> int:
    running = Import(source, client)
    failure = ""
    try:
        running.run(given.only)
    except (DatabaseError, MemorydError) as error:
        failure = str(error)
    done = running.done
    made = Outcome.READ if client is None else Outcome.IMPORTED
    print(f"{done[made]} sessions {made.value}, {done[Outcome.THERE]} there before, "
          f"{done[Outcome.FAILED]} failed")
    if failure:
        return _failed(1, f"{failure}; run it again: what is imported stays as it is")
    if done[Outcome.FAILED]:
        return 1
    return 3 if done[Outcome.THERE] else 0


def _source(given: argparse.Namespace, database: Database) -> Source:
    # Each needs its framework.
    if given.source == "llama-index":
        from memoryd.importers.llama_index import LlamaIndexTable

        return LlamaIndexTable(database, given.table, given.schema, given.session_prefix)
    if given.source == "langchain":
        from memoryd.importers.langchain import LangChainTable

        return LangChainTable(database, given.table, given.schema, given.session_prefix)
    from memoryd.importers.mem0 import Mem0Database

    return Mem0Database(database, given.session_prefix, given.memories)


def _client(given: argparse.Namespace) -> Client:
    credentials = None
    # A server has no TLS on UNIX sockets.
    target = given.target or _environment.target()
    if given.ca_file and not target.startswith("unix:"):
        credentials = grpc.ssl_channel_credentials(
            _bytes(given.ca_file), _bytes(given.client_key_file), _bytes(given.client_cert_file))
    token: Callable[[], str] | None = None
    if given.token_file:
        file = pathlib.Path(given.token_file)
        file.read_bytes()  # Found out before anything is done.
        token = lambda: file.read_text(encoding="utf-8").strip()  # noqa: E731
    return Client(target, credentials=credentials, token=token)


def _bytes(path: str | None) -> bytes | None:
    return pathlib.Path(path).read_bytes() if path else None


def _failed(code: int, why: str) -> int:
    print(f"memoryd.importers: {why}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m memoryd.importers", epilog=_EXIT_CODES,
        description="Makes sessions of memoryd out of what another memory has in its database, "
                    "which is only read. Each is whole or not there; one that memoryd has already "
                    "is left as it is.",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    sources = parser.add_subparsers(dest="source", required=True, metavar="SOURCE")
    for name, what in (
        ("llama-index", "the table of LlamaIndex' SQLAlchemyChatStore, and of its Memory"),
        ("langchain", "the table of LangChain's PostgresChatMessageHistory, or of its "
                      "SQLChatMessageHistory"),
        ("mem0", "mem0's history.db: memories, and the last messages of each scope"),
    ):
        source = sources.add_parser(name, help=what, description=f"Reads {what}.",
                                    epilog=_EXIT_CODES,
                                    formatter_class=argparse.RawDescriptionHelpFormatter)
        source.add_argument("--database", required=True, metavar="URL",
                            help="SQLAlchemy's URL of it, whatever the driver there, or a SQLite "
                                 "file; PGPASSWORD and ~/.pgpass work for PostgreSQL")
        if name == "mem0":
            source.add_argument("--memories", default="mem0-memories", metavar="KEY",
                                help="session of the memories, of whoever they are [%(default)s]")
        else:
            usual = "llama_index_memory" if name == "llama-index" else None
            source.add_argument("--table", default=usual, required=usual is None,
                                help=f"the table{f' [{usual}]' if usual else ''}")
            source.add_argument("--schema", help="the table's schema, in PostgreSQL")
        source.add_argument("--session-prefix", default="", metavar="PREFIX",
                            help="what stands before each session's id in memoryd")
        source.add_argument("--only", action="append", default=[], metavar="KEY",
                            help="the session of this key alone; may be given several times")
        source.add_argument("--dry-run", action="store_true",
                            help="read all and make nothing, without asking memoryd")
        _add_connection(source)
    return parser


def _add_connection(parser: argparse.ArgumentParser) -> None:
    """The options of memoryd's own commands."""
    for option, metavar, usual, what in (
        ("target", "HOST:PORT", _environment.DEFAULT_TARGET, "the server, or unix:PATH"),
        ("token-file", "FILE", None, "file with a bearer token, which says the tenant; needs the "
                                     "rights admin and write"),
        ("ca-file", "FILE", None, "PEM file: TLS, with a server whose certificate one of these "
                                  "signed"),
        ("client-cert-file", "FILE", None, "PEM file: the certificate to show"),
        ("client-key-file", "FILE", None, "PEM file: its key"),
    ):
        variable = f"MEMORYD_{option.upper().replace('-', '_')}"
        parser.add_argument(f"--{option}", metavar=metavar,
                            default=os.environ.get(variable),
                            help=f"{what}{f' [{usual}]' if usual else ''}; else {variable}")


if __name__ == "__main__":
    sys.exit(main())
