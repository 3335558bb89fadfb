"""The importer of LangChain's tables: what its histories wrote and read, memoryd's reads."""

from __future__ import annotations

import uuid

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage

from support.importing import module_alone, run, source_database
from support.postgres import run_sql
from test_langchain import EVERY_KIND

from memoryd import Client
from memoryd.langchain import ChatMessageHistory

pytestmark = pytest.mark.filterwarnings("ignore")  # LangChain's, of what it deprecates.

postgres = module_alone("langchain-postgres", "langchain_postgres/chat_message_histories.py")
# jsonb has no NUL, so this class can't write one.
WITHOUT_NUL = [said for said in EVERY_KIND if "\0" not in said.additional_kwargs.values()]
LONG = [(HumanMessage, AIMessage)[i % 2](f"m{i}") for i in range(1100)]


def test_its_history_in_postgresql_and_ours_read_the_same(server):
    sessions = {str(uuid.uuid4()): said for said in (WITHOUT_NUL, LONG)}
    with source_database("postgresql", None) as url:
        with psycopg.connect(url) as connection:
            postgres.PostgresChatMessageHistory.create_tables(connection, "chat_history")
            histories = {key: postgres.PostgresChatMessageHistory(
                "chat_history", key, sync_connection=connection) for key in sessions}
            for key, said in sessions.items():
                histories[key].add_messages(said)
            read = {key: history.messages for key, history in histories.items()}
        done = run("langchain", "--database", url.replace("://", "+psycopg://"), "--table",
                   "chat_history", "--target", server.target)
        times = run_sql(url, "SELECT DISTINCT session_id, EXTRACT(EPOCH FROM created_at) * 1000000 "
                             "FROM chat_history").split()
    assert done.code == 0, done.lines
    assert done.summary == "2 sessions imported, 0 there before, 0 failed"
    micros = dict(line.split("|") for line in times)
    with Client(server.target) as client:
        for key, messages in read.items():
            found = ChatMessageHistory(key, target=server.target).messages
            assert found == messages
            assert [type(message) for message in found] == [type(message) for message in messages]
            assert {m.create_time.ToMicroseconds() for m in client.get_all(key)} == {
                int(float(micros[key]))}


@pytest.mark.parametrize("kind", ("sqlite", "postgresql"))
def test_its_history_over_sqlalchemy_and_ours_read_the_same(server, kind, tmp_path, session_id):
    from langchain_community.chat_message_histories.sql import SQLChatMessageHistory

    with source_database(kind, tmp_path) as url:
        library = url.replace("postgresql://", "postgresql+psycopg://")
        keys = {f"{session_id} é": EVERY_KIND, f"{session_id}%": LONG}
        read = {}
        for key, said in keys.items():
            history = SQLChatMessageHistory(key, connection=library)
            history.add_messages(said)
            read[key] = history.messages
            history.engine.dispose()
        at = ("langchain", "--database", library, "--table", "message_store")
        done = run(*at, "--target", server.target)
        assert done.code == 0, done.lines
        assert done.line(f"{session_id}%").endswith(
            "1100 messages; not carried: 1100 times, which the table does not have")
        for key, messages in read.items():
            found = ChatMessageHistory(key, target=server.target).messages
            assert found == messages
            assert [repr(message) for message in found] == [repr(message) for message in messages]
        # Goes on there.
        history = ChatMessageHistory(f"{session_id}%", target=server.target)
        history.add_message(HumanMessage("new"))
        assert history.messages == [*LONG, HumanMessage("new")]
