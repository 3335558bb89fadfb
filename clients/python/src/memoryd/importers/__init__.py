"""Import of other memories' tables as sessions of memoryd.

    python -m memoryd.importers llama-index --database sqlite+aiosqlite:///chat.db

reads the tables of LlamaIndex' SQLAlchemyChatStore, of LangChain's chat histories over SQL, or of
mem0. It makes a session of each of theirs by ImportSession: whole or not at all, in its order and
with its times. It writes nothing to the source. clients/python/IMPORTERS.md describes the mapping.
"""
