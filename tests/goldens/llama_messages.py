"""ChatMessage.model_dump(mode="json") to memoryd.v1.Message and back, as the Python package has it."""

from support import paths  # noqa: F401  (makes memoryd importable)

from memoryd.llama_index._messages import to_dump, to_message, to_part

__all__ = ["to_dump", "to_message", "to_part"]
