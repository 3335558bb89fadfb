"""The replies of Get and UpdateContext, which can be read in the forms of model APIs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memoryd import forms
from memoryd.results import Hit, Wrapped, shortened, text_of
from memoryd.v1 import memory_service_pb2 as wire

if TYPE_CHECKING:
    # For checkers of types each has the fields and methods of the proto message.
    _Get = wire.GetResponse
    _UpdateContext = wire.UpdateContextResponse
else:
    # protobuf's classes can't be derived from.
    _Get = _UpdateContext = object


class _Replied(Wrapped):
    """A reply of the server. The fields and methods of the proto message, `reply`, are this
    object's too."""

    @property
    def reply(self) -> Any:
        """The proto message; the same as `wire`."""
        return self.wire

    def to_openai(self) -> list[Any]:
        """Returns the messages in the form of OpenAI's chat completions, see forms.to_openai."""
        return forms.to_openai(self.wire.messages)

    def to_anthropic(self) -> forms.AnthropicMessages:
        """Returns the messages in Anthropic's form, `.messages` and `.system`, see
        forms.to_anthropic. Pass it to `messages.create` with `**`."""
        return forms.to_anthropic(self.wire.messages)

    def _shown(self) -> Iterator[str]:
        yield f"{len(self.wire.messages)} messages"
        if self.wire.messages:
            last = self.wire.messages[-1]
            yield f"last={last.role}: {shortened(text_of(last))}"


class Context(_Replied, _Get):
    """The context for the next model call: the reply of Get. `reply` is the proto message, a
    memory_service_pb2.GetResponse."""

    def _shown(self) -> Iterator[str]:
        yield from super()._shown()
        yield f"tokens={self.wire.token_count} of {self.wire.limit}"
        for field in ("blocks_used", "blocks_dropped"):
            if names := list(getattr(self.wire, field)):
                yield f"{field}={names}"
        if self.wire.missing_blocks:
            yield f"missing_blocks={[block.block for block in self.wire.missing_blocks]}"


class UserContext(Context):
    """The context of a conversation with a user, from Client.context: the reply of Get, with a
    message of recalled texts."""

    recalled: list[Hit]

    def __init__(self, wire: Any, recalled: list[Hit]) -> None:
        """`recalled` are the recalled hits, oldest first."""
        super().__init__(wire)
        self.recalled = recalled

    def _shown(self) -> Iterator[str]:
        yield from super()._shown()
        yield f"recalled={self.recalled}"


class UpdatedContext(_Replied, _UpdateContext):
    """A context with memory inserted: the reply of UpdateContext. `reply` is the proto message, a
    memory_service_pb2.UpdateContextResponse."""

    @property
    def results(self) -> list[Hit]:  # type: ignore[override]
        """The items that the insertions are made of."""
        return [Hit(one) for one in self.wire.results]

    def _shown(self) -> Iterator[str]:
        yield from super()._shown()
        yield f"results={self.results}"
