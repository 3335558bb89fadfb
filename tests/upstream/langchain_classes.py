"""pytest plugin that puts memoryd.langchain's classes in the place of the library's.

Wherever a module of LangChain's holds one of the library's classes, it then holds ours, before the
tests import it from there; so do the chains that make one by themselves.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import langchain_classic.chains.conversation.memory  # noqa: F401  (holds some of the classes)
import langchain_core.chat_history
import langchain_core.runnables.history
from langchain_classic.chains.conversation.base import ConversationChain

from memoryd import langchain as ours

_LIBRARY = ("langchain_classic", "langchain_core")


def _replacements() -> dict[int, Any]:
    """Ours, by the identity of the library's."""
    found = {id(langchain_core.chat_history.InMemoryChatMessageHistory): ours.ChatMessageHistory}
    for name in ours.__all__:
        own = getattr(ours, name)
        for module in ("chat_memory", "entity", "summary", ""):
            library = importlib.import_module(f"langchain_classic.memory.{module}".rstrip("."))
            theirs = vars(library).get(name)
            if theirs is not None and theirs is not own:
                found[id(theirs)] = own
    return found


def _put_in_place() -> int:
    replacements, count = _replacements(), 0
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in _LIBRARY:
            continue
        for attribute, value in list(vars(module).items()):
            if id(value) in replacements:
                setattr(module, attribute, replacements[id(value)])
                count += 1
    chain_memory = ConversationChain.model_fields["memory"]
    chain_memory.default_factory = ours.ConversationBufferMemory
    ConversationChain.model_rebuild(force=True)
    return count


_count = _put_in_place()
assert _count > 0


def pytest_report_header() -> str:
    return f"memoryd: {_count} names of LangChain's modules are memoryd.langchain's"
