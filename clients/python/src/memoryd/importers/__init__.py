"""Sessions of memoryd out of the tables of other memories.

    python -m memoryd.importers llama-index --database sqlite+aiosqlite:///chat.db

reads what LlamaIndex' SQLAlchemyChatStore, LangChain's chat histories over SQL or mem0 have stored,
and makes a session of each of theirs by ImportSession: whole or not at all, in its order and with
its times. Nothing is written to what is read. clients/python/IMPORTERS.md says what goes where.
"""
