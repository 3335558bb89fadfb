"""Messages in the forms of OpenAI's and Anthropic's packages. They are stored, and returned
unchanged.

`put`, `set`, `update_context` and `import_session` take memoryd's own messages, and dicts and
pydantic models of either form:

    memory.put("s1", [{"role": "user", "content": "What is 6 x 7?"}, response.choices[0].message])
    context = memory.get("s1")
    openai.chat.completions.create(model=…, messages=context.to_openai())
    anthropic.messages.create(model=…, max_tokens=…, **context.to_anthropic())

The first rule that matches decides which form a dict has:

1. OpenAI's: the role `developer`, `tool` or `function`, or one of the keys `tool_calls`,
   `tool_call_id`, `function_call`, `name`, `refusal`, `audio`, `annotations`, `reasoning`,
   `reasoning_content` and `reasoning_details`.
2. Anthropic's: a block `image`, `document`, `thinking`, `redacted_thinking`, `search_result`,
   `container_upload`, `tool_use`, `tool_result`, or of a type that ends with one of the last two.
3. OpenAI's: a part `image_url`, `video_url`, `input_audio`, `file`, `refusal`, `input_text` or
   `output_text`.
4. Anthropic's: the key `type` with `message`, `cache_control` or `citations` in a text, an empty
   list as `content`, or an empty text in a list of an assistant's message, as in a stream that was
   cut.
5. OpenAI's: any other empty text, which Anthropic's API refuses, or a `content` of None.
6. Anything else, such as `{"role": "user", "content": "hi"}`, is the same in both forms.

`from_openai` and `from_anthropic` set the form explicitly.

A message read in the form in which it was put is unchanged: it has all its keys, in order, and
values that the API does not know. A message read in the other form is converted, and valid there.
Tool results go where that API expects them, and ids and names of tools are made valid. `[audio]` or
the like replaces media that it does not take. Reasoning, citations, names of speakers and blocks of
server tools are left out where the API would refuse them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

from memoryd import _anthropic_form, _openai_form
from memoryd._adapters import turns
from memoryd._crossing import Crossing
from memoryd._roles import is_system, is_tool
from memoryd._templates import BOTH, Stored, same_json, write
from memoryd._wire_text import joined
from memoryd.v1 import memory_pb2 as memory

Dict = dict[str, Any]


class Model(Protocol):
    """A message, or a part of one, as a pydantic model of a provider's package."""

    def model_dump(self, *arguments: Any, **named: Any) -> Any:
        """Returns the message as a dict."""
        ...


# A message of either form, or memoryd's own.
AnyMessage: TypeAlias = "memory.Message | Mapping[str, object] | Model"

OPENAI = "openai"
ANTHROPIC = "anthropic"

_FORMS: dict[str, Any] = {OPENAI: _openai_form, ANTHROPIC: _anthropic_form}
_OPENAI_KEYS = frozenset((
    "tool_calls", "tool_call_id", "function_call", "name", "refusal", "audio", "annotations",
    "reasoning", "reasoning_content", "reasoning_details",
))
_OPENAI_ROLES = frozenset(("developer", "tool", "function"))
_OPENAI_PARTS = frozenset((
    "image_url", "video_url", "input_audio", "file", "refusal", "input_text", "output_text",
))
_ANTHROPIC_BLOCKS = frozenset((
    "image", "document", "thinking", "redacted_thinking", "search_result", "container_upload",
))
_ANTHROPIC_ENDS = ("tool_use", "tool_result")
# Blocks whose content is blocks; so is that of a document's source.
_OF_BLOCKS = ("tool_result", "search_result")
# What a message may have in place of a content.
_CONTENTS = ("content", "tool_calls", "function_call", "refusal", "audio", "reasoning_content",
             "reasoning")
# Of Anthropic's answer, what a request's message has.
_REQUEST_KEYS = ("role", "content")


class AnthropicMessages(dict[str, Any]):
    """Messages in Anthropic's form: a dict of `messages` and, if there is one, `system`. Pass it to
    `messages.create` with `**`."""

    @property
    def messages(self) -> list[Any]:
        """The messages, except those in `system`."""
        found: list[Any] = self["messages"]
        return found

    @property
    def system(self) -> str | list[Any] | None:
        """The system messages: the content of a single one, else a list of text blocks. None: there
        are none."""
        return self.get("system")


def from_openai(
    message: Mapping[str, object] | Model,
    *,
    metadata: Mapping[str, Any] | None = None,
    **fields: Any,
) -> memory.Message:
    """Converts a message in the form of OpenAI's chat completions to memoryd's.

    `metadata` is for filters, and `fields` are other fields of memory_pb2.Message, such as
    `message_id`. Raises TypeError or ValueError, which name the place, if the message does not have
    that form.
    """
    return _of_form(message, OPENAI, "message", metadata, fields)


def from_anthropic(
    message: Mapping[str, object] | Model,
    *,
    metadata: Mapping[str, Any] | None = None,
    **fields: Any,
) -> memory.Message:
    """Converts a message in Anthropic's form to memoryd's. The rest is as in from_openai."""
    return _of_form(message, ANTHROPIC, "message", metadata, fields)


def to_openai(messages: Iterable[memory.Message]) -> list[Any]:
    """Returns stored messages in the form of OpenAI's chat completions.

    A message that was put in that form is unchanged. A message in Anthropic's form with several
    tool results becomes one message for each.
    """
    given: list[Dict] = []
    for message, _, _ in _in_form(messages, OPENAI):
        given.append(message)
    return given


def to_anthropic(messages: Iterable[memory.Message]) -> AnthropicMessages:
    """Returns stored messages in Anthropic's form: `.messages` and `.system`, or both with `**`.

    A message that was put in that form is unchanged. Messages of the roles `system` and `developer`
    go into `system`. Only a later one with a mark of Anthropic's form stays in its place. Tool
    results that were put one by one in OpenAI's form are joined. Messages without content are left
    out. The API refuses both otherwise.
    """
    given: list[Dict] = []
    system: list[Any] = []
    # Whether the last message is one of results that others may join.
    is_open = False
    for message, stored, is_as_put in _in_form(messages, ANTHROPIC):
        is_result = is_tool(stored.message.role) and not is_as_put
        if is_system(message["role"]) and not (given and stored.form == ANTHROPIC and is_as_put):
            system.append(message["content"])
        elif is_result and is_open and isinstance(message["content"], list):
            given[-1]["content"] = _results_first(given[-1]["content"] + message["content"])
        else:
            given.append(message)
            is_open = is_result and isinstance(message["content"], list)
    made = AnthropicMessages(messages=given)
    if len(system) == 1:
        made["system"] = system[0]
    elif system:
        made["system"] = [block for content in system for block in _as_blocks(content)]
    return made


def stored(messages: Iterable[AnyMessage]) -> Iterator[memory.Message]:
    """Converts a caller's messages to memoryd's; memoryd's own stay unchanged. Errors name the
    place, such as `messages[1].content`."""
    return (made for made, _ in _each_stored(messages))


def placed(messages: Iterable[AnyMessage]) -> Iterator[memory.Message]:
    """As `stored`, for a call that requires ids and positions. A message of another form gets an
    id, and the position after the message before it."""
    position = 0
    for made, is_made_here in _each_stored(messages):
        if is_made_here:
            made.message_id = uuid.uuid4().hex
            made.position = position + 1
        position = made.position
        yield made


def _each_stored(messages: Iterable[AnyMessage]) -> Iterator[tuple[memory.Message, bool]]:
    """Yields each message, and whether it was given in another form."""
    if isinstance(messages, (str, bytes, Mapping, memory.Message)) or hasattr(
        messages, "model_dump"
    ):
        raise TypeError(f"messages: must be a list of messages; got {_name(messages)}. Give "
                        "[message] for a single one")
    for index, message in enumerate(messages):
        if isinstance(message, memory.Message):
            yield message, False
            continue
        yield _of_form(message, None, f"messages[{index}]"), True


def _of_form(
    message: AnyMessage,
    form: str | None,
    field: str,
    metadata: Mapping[str, Any] | None = None,
    fields: Mapping[str, Any] | None = None,
) -> memory.Message:
    """Converts a message of `form`; None: the form that it has. `field` names the message in
    errors."""
    try:
        plain = _plain(message, field)
        _check(plain, field)
        return _made(plain, form or _form_of(plain), field, metadata or {}, fields or {})
    except RecursionError:
        raise ValueError(f"{field}: is nested too deeply. Give what JSON has") from None


def _made(
    plain: Dict, form: str, field: str, metadata: Mapping[str, Any], fields: Mapping[str, Any]
) -> memory.Message:
    role = joined(plain["role"])
    # What is the same in both is taken as OpenAI's.
    taking, template = _FORMS[OPENAI if form == BOTH else form].taken(plain)
    try:
        made = memory.Message(role=role, name=taking.name, **fields)
    except UnicodeEncodeError:
        raise ValueError(f"{field}.role: holds half a character, which UTF-8 has not") from None
    if len(taking.parts) == 1 and taking.parts[0].HasField("text"):
        made.text = taking.parts[0].text
    else:
        made.parts.extend(taking.parts)
    if _says_all(made, taking.parts, plain, form):
        template = None
    write(made, form, template, metadata)
    return made


def _says_all(
    made: memory.Message, parts: list[memory.Part], plain: Dict, form: str
) -> bool:
    """Whether the parts alone restore the message."""
    return all(
        same_json(_FORMS[name].canonical(made, parts, Crossing()), [plain])
        for name in ((OPENAI, ANTHROPIC) if form == BOTH else (form,)))


def _in_form(
    messages: Iterable[memory.Message], form: str
) -> Iterator[tuple[Dict, Stored, bool]]:
    """Yields messages of the form, each with the stored message, and whether it is unchanged."""
    found = [Stored(message) for message in turns.whole(messages)]
    given = [one.as_put() if one.form in (form, BOTH) else None for one in found]
    kept = {call_id for one, put in zip(found, given, strict=True) if put is not None
            for call_id in _ids(one)}
    crossing = Crossing(kept)
    for one, put in zip(found, given, strict=True):
        if put is None:
            for message in _FORMS[form].canonical(one.message, one.parts, crossing):
                yield message, one, False
            continue
        message, ahead = put
        if ahead:
            _insert(message, _FORMS[form].blocks_of(ahead))
        yield message, one, True


def _insert(message: Dict, blocks: list[Dict]) -> None:
    """Inserts the text of memory before a message's own content, but after results."""
    content = message.get("content")
    message["content"] = _results_first(blocks + _as_blocks(content))


def _as_blocks(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content or ())


def _results_first(blocks: list[Any]) -> list[Any]:
    return sorted(blocks, key=lambda block: block.get("type") != "tool_result")


def _ids(stored: Stored) -> Iterator[str]:
    for part in stored.parts:
        if part.HasField("tool_call"):
            yield part.tool_call.call_id
        elif part.HasField("tool_result"):
            yield part.tool_result.call_id


def _form_of(message: Dict) -> str:
    """Returns the form of a message by the rules of this module."""
    if message["role"] in _OPENAI_ROLES or not _OPENAI_KEYS.isdisjoint(message):
        return OPENAI
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    kinds = [kind for kind in (block.get("type") for block in blocks) if isinstance(kind, str)]
    if any(kind in _ANTHROPIC_BLOCKS or kind.endswith(_ANTHROPIC_ENDS) for kind in kinds):
        return ANTHROPIC
    if not _OPENAI_PARTS.isdisjoint(kinds):
        return OPENAI
    if message.get("type") == "message":
        return ANTHROPIC
    texts = [block for block in blocks if block.get("type") == "text"]
    if content == [] or any("cache_control" in block or "citations" in block for block in texts):
        return ANTHROPIC
    said = [content] if isinstance(content, str) else [block.get("text") for block in texts]
    if any(isinstance(text, str) and not text.strip() for text in said):
        return ANTHROPIC if texts and message["role"] == "assistant" else OPENAI
    return OPENAI if content is None else BOTH


def _check(message: Any, field: str) -> None:
    """Raises TypeError or ValueError if the message has neither form."""
    if not isinstance(message, dict):
        raise TypeError(f"{field}: must be a message; got {_name(message)}. Give a dict of "
                        "OpenAI's or Anthropic's form, or memoryd.message(…)")
    if "role" not in message:
        raise ValueError(f"{field}.role: is missing; got {_keys(message)}. Give a dict of OpenAI's "
                         "or Anthropic's form such as {'role': 'user', 'content': 'hi'}, or "
                         "memoryd.message(…)")
    if not isinstance(message["role"], str) or not message["role"]:
        raise TypeError(f"{field}.role: must be a text such as 'user'; got {message['role']!r:.60}")
    if not any(key in message for key in _CONTENTS):
        raise ValueError(f"{field}.content: is missing; got {_keys(message)}. Give a text, a list "
                         "of parts, or None")
    content = message.get("content")
    if content is not None and not isinstance(content, (str, list)):
        raise TypeError(f"{field}.content: must be a text, a list of parts or None; got "
                        f"{_name(content)}")
    for key in ("content", "tool_calls"):
        items = message.get(key)
        for index, item in enumerate(items if isinstance(items, list) else ()):
            _check_item(item, f"{field}.{key}[{index}]")


def _check_item(item: Any, field: str) -> None:
    if not isinstance(item, dict):
        raise TypeError(f"{field}: must be a dict with a 'type', such as "
                        f"{{'type': 'text', 'text': 'hi'}}; got {_name(item)}")
    inside, key = item, "content"
    if item.get("type") == "document" and isinstance(item.get("source"), dict):
        inside, key = item["source"], "source.content"
    elif item.get("type") not in _OF_BLOCKS:
        return
    within = inside.get("content")
    for index, inner in enumerate(within if isinstance(within, list) else ()):
        _check_item(inner, f"{field}.{key}[{index}]")


def _plain(value: Any, field: str) -> Any:
    """Returns the value as JSON values. Raises TypeError, which names the place, for anything
    else."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{field}: keys must be texts; got {key!r:.60}")
        return {key: _plain(item, f"{field}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{field}[{index}]") for index, item in enumerate(value)]
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return _dumped(value, field)
    remedy = ("Give it as a text in base64" if isinstance(value, (bytes, bytearray))
              else "Give a dict or what JSON has")
    raise TypeError(f"{field}: must be a value of JSON; got {_name(value)}. {remedy}")


def _dumped(model: Any, field: str) -> Any:
    """Returns a model as the provider's package sends it."""
    dumped = model.model_dump(
        mode="json", exclude_unset=True, exclude=getattr(model, "__api_exclude__", None))
    if isinstance(dumped, dict) and dumped.get("type") == "message" and "role" in dumped:
        # Anthropic's answer: a request has no place for its id, model and usage.
        dumped = {key: dumped[key] for key in _REQUEST_KEYS if key in dumped}
    return _plain(dumped, field)


def _keys(message: Dict) -> str:
    return f"the keys {', '.join(map(repr, list(message)[:8]))}" if message else "an empty dict"


def _name(value: Any) -> str:
    return type(value).__name__
