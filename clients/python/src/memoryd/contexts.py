"""What Get and UpdateContext reply, to be read in the forms of model APIs too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memoryd import forms
from memoryd.v1 import memory_service_pb2 as wire

if TYPE_CHECKING:
    # For checkers of types each has the fields and methods of the proto message.
    _Get = wire.GetResponse
    _UpdateContext = wire.UpdateContextResponse
else:
    # protobuf's classes can't be derived from.
    _Get = _UpdateContext = object


class _Replied:
    """A reply of the server, `reply`, whose fields and methods are this object's too."""

    reply: Any

    def __init__(self, reply: Any) -> None:
        self.reply = reply

    def to_openai(self) -> list[Any]:
        """The messages in the form of OpenAI's chat completions, as forms.to_openai gives them."""
        return forms.to_openai(self.reply.messages)

    def to_anthropic(self) -> forms.AnthropicMessages:
        """The messages in Anthropic's form, `.messages` and `.system`, to be given to
        `messages.create` by `**`, as forms.to_anthropic gives them."""
        return forms.to_anthropic(self.reply.messages)

    def __getattr__(self, name: str) -> Any:
        # `reply` is asked for while an object is unpickled, the others by copy and pickle.
        if name == "reply" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.reply, name)

    def __eq__(self, other: object) -> bool:
        return bool(self.reply == (other.reply if isinstance(other, _Replied) else other))

    # As of the proto message, which can be changed.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.reply!r})"

    def __str__(self) -> str:
        return str(self.reply)


class Context(_Replied, _Get):
    """The context for the next model call: the reply of Get. `reply` is the proto message, a
    memory_service_pb2.GetResponse."""


class UpdatedContext(_Replied, _UpdateContext):
    """A context with what memory has to say about it: the reply of UpdateContext. `reply` is the
    proto message, a memory_service_pb2.UpdateContextResponse."""
