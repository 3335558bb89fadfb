"""Items of the Responses API, into parts and out of them."""

from __future__ import annotations

import base64
from typing import Any

from agents.models.fake_id import FAKE_RESPONSES_ID

from memoryd._adapters.own_forms import Crossing, Taking, is_role, text_of
from memoryd._crossing import texts_of
from memoryd._roles import is_assistant, is_system, is_tool
from memoryd._templates import held_by
from memoryd.v1 import memory_pb2 as memory

Dict = dict[str, Any]

_TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "summary_text": "text",
          "reasoning_text": "text", "refusal": "refusal"}
# Calls that the program answers by another item, and the key of what each asks for.
_CALLS = {"function_call": "arguments", "custom_tool_call": "input", "computer_call": "action",
          "local_shell_call": "action", "shell_call": "action", "apply_patch_call": "operation"}
# The answers. A local shell's has the call's id as its own.
_RESULTS = {"function_call_output": "call_id", "custom_tool_call_output": "call_id",
            "computer_call_output": "call_id", "shell_call_output": "call_id",
            "apply_patch_call_output": "call_id", "local_shell_call_output": "id"}
_FAILED = ("failed", "incomplete")


class ResponsesForm:
    """The OwnForm of the items of a session."""

    name = "openai-responses"

    def role(self, value: Any) -> str:
        kind = _kind(value)
        if kind == "message":
            return str(value["role"]) if is_role(value["role"]) else "user"
        return "tool" if kind in _RESULTS else "assistant"

    def taken(self, value: Any) -> tuple[Taking, Any]:
        kind = _kind(value)
        taking = Taking(int(kind in _CALLS or kind in _RESULTS))
        if kind == "message":
            return taking, _take_contents(taking, value, "content")
        if kind == "reasoning":
            return taking, _take_reasoning(taking, value)
        if kind in _CALLS:
            return taking, _take_call(taking, value, kind)
        if kind in _RESULTS:
            return taking, _take_result(taking, value, kind)
        if kind == "image_generation_call" and isinstance(value.get("result"), str):
            image = taking.data("image", value["result"], mime_type="image/png")
            return taking, {**value, "result": image}
        return taking, taking.opaque(kind, value)

    def says_all(self, value: Any) -> bool:
        # What an assistant says is joined by others with what it says at once: see `turns`.
        return not is_assistant(self.role(value))

    def canonical(
        self, message: memory.Message, parts: list[memory.Part], crossing: Crossing
    ) -> list[Any]:
        role = message.role
        if is_system(role):
            text = "\n".join(texts_of(parts))
            return [{"role": role, "content": text}] if text else []
        results = [part.tool_result for part in parts if part.HasField("tool_result")]
        others = [part for part in parts if not part.HasField("tool_result")]
        if is_assistant(role):
            return [*_said(others, crossing), *(_answer(one, crossing) for one in results)]
        if is_tool(role):
            if not results:
                results = [memory.ToolResult(name=message.name, text="".join(texts_of(others)))]
                others = []
            said = "".join(texts_of(others))
            answers = [_answer(one, crossing, said if one is results[-1] else "")
                       for one in results]
            media = [part for part in others if part.WhichOneof("kind") in ("image", "document")]
            return answers + _asked(media)
        return [*(_answer(one, crossing) for one in results), *_asked(others)]


FORM = ResponsesForm()


def _kind(value: Any) -> str:
    """The type of an item; `message` for one that only has a role, `""` for what is none."""
    if not isinstance(value, dict):
        return ""
    kind = value.get("type", "message")
    if kind == "message":
        return "message" if isinstance(value.get("role"), str) else ""
    return kind if isinstance(kind, str) else ""


def _take_contents(taking: Taking, value: Dict, key: str) -> Dict:
    content = value.get(key)
    if isinstance(content, str):
        return {**value, key: taking.text(content)}
    if isinstance(content, list):
        return {**value, key: [_take_content(taking, one) for one in content]}
    return value


def _take_content(taking: Taking, content: Any) -> Any:
    kind = content.get("type") if isinstance(content, dict) else None
    if kind in _TEXTS:
        key = _TEXTS[kind]
        if isinstance(content.get(key), str):
            return {**content, key: taking.text(content[key])}
    if kind == "input_image":
        if isinstance(content.get("image_url"), str):
            url = taking.url("image", content["image_url"], detail=content.get("detail"))
            return {**content, "image_url": url}
        if isinstance(content.get("file_id"), str):
            return {**content, "file_id": taking.file("image", content["file_id"])}
    if kind == "input_file":
        title = content.get("filename")
        if isinstance(content.get("file_data"), str):
            given = content["file_data"]
            take = taking.url if given.startswith("data:") else taking.data
            return {**content, "file_data": take("document", given, title=title)}
        if isinstance(content.get("file_url"), str):
            return {**content, "file_url": taking.url("document", content["file_url"], title=title)}
        if isinstance(content.get("file_id"), str):
            return {**content, "file_id": taking.file("document", content["file_id"], title=title)}
    if kind == "input_audio" and isinstance(content.get("input_audio"), dict):
        audio = content["input_audio"]
        if isinstance(audio.get("data"), str):
            data = taking.data("audio", audio["data"], format=audio.get("format"))
            return {**content, "input_audio": {**audio, "data": data}}
    return taking.opaque(kind, content)


def _take_reasoning(taking: Taking, value: Dict) -> Dict:
    """Reasoning: its texts are parts, what is encrypted stays around them."""
    made = dict(value)
    for key in ("summary", "content"):
        if isinstance(made.get(key), list):
            made[key] = [_take_thought(taking, one) for one in made[key]]
    return made


def _take_thought(taking: Taking, thought: Any) -> Any:
    if not isinstance(thought, dict) or not isinstance(thought.get("text"), str):
        return thought
    hole, _ = taking.thinking(thought["text"])
    return {**thought, "text": hole}


def _take_call(taking: Taking, value: Dict, kind: str) -> Dict:
    key = _CALLS[kind]
    named = value.get("name")
    if kind not in ("function_call", "custom_tool_call"):
        named = kind.removesuffix("_call")
    given_id, name, asked = taking.call(value.get("call_id"), named, value.get(key, ""))
    made = dict(value)
    if "call_id" in made:
        made["call_id"] = given_id
    if "name" in made and named is value["name"]:
        made["name"] = name
    if key in made:
        made[key] = asked
    return made


def _take_result(taking: Taking, value: Dict, kind: str) -> Dict:
    key = _RESULTS[kind]
    output = value.get("output")
    is_list = isinstance(output, list)
    texts: list[str] = []
    if isinstance(output, str):
        texts = [output]
    elif isinstance(output, list):
        texts = [one["text"] for one in output if _is_text(one)]
    name = value.get("name")
    is_error = value.get("status") in _FAILED
    if isinstance(output, dict) and isinstance(output.get("image_url"), str):
        given_id, _, _ = taking.result(value.get(key), "computer", [])
        shot = {**output, "image_url": taking.url("image", output["image_url"])}
        return {**value, **({key: given_id} if key in value else {}), "output": shot}
    if "output" in value and not is_list and not isinstance(output, str):
        # Others read it as JSON; here it stays as it is.
        taking.result(value.get(key), name, [text_of(output)], is_error)
        return value
    given_id, named, holes = taking.result(value.get(key), name, texts, is_error)
    made = dict(value)
    if key in made:
        made[key] = given_id
    if "name" in made:
        made["name"] = named
    if isinstance(output, list):
        made["output"] = [{**one, "text": holes.pop(0)} if _is_text(one)
                          else _take_content(taking, one) for one in output]
    elif holes:
        made["output"] = holes[0]
    return made


def _is_text(content: Any) -> bool:
    if not isinstance(content, dict) or not isinstance(content.get("text"), str):
        return False
    return content.get("type") in ("input_text", "output_text", "text")


def _said(parts: list[memory.Part], crossing: Crossing) -> list[Dict]:
    """What an assistant of another framework said and called. Its texts are one message ahead of
    the calls, of the kind that the SDK joins with them for an API of chat completions."""
    texts: list[str] = []
    calls: list[Dict] = []
    for part in parts:
        if part.HasField("tool_call"):
            call = part.tool_call
            calls.append({"type": "function_call", "call_id": crossing.call_id(call),
                          "name": crossing.tool_name(call.name),
                          "arguments": call.arguments_json or "{}"})
            continue
        text = "".join(texts_of([part]))
        if part.WhichOneof("kind") in ("image", "audio", "video", "document"):
            text = f"[{part.WhichOneof('kind')}]"
        if text:
            texts.append(text)
    if len(texts) == 1 and not calls:
        return [{"role": "assistant", "content": texts[0]}]
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    said: Dict = {"id": FAKE_RESPONSES_ID, "type": "message", "role": "assistant",
                  "status": "completed", "content": content}
    return [said, *calls] if texts else calls


def _answer(result: memory.ToolResult, crossing: Crossing, more: str = "") -> Dict:
    answered = crossing.answered(result)
    if answered is None:
        return {"role": "user",
                "content": f"[{crossing.tool_of(result)}] {result.text}{more}"}
    return {"type": "function_call_output", "call_id": answered, "output": result.text + more}


def _asked(parts: list[memory.Part]) -> list[Dict]:
    made = [one for one in map(_input, parts) if one is not None]
    if not made:
        return []
    if len(made) == 1 and made[0]["type"] == "input_text":
        return [{"role": "user", "content": made[0]["text"]}]
    return [{"role": "user", "content": made}]


def _input(part: memory.Part) -> Dict | None:
    kind = part.WhichOneof("kind")
    if kind == "image":
        image = part.image
        about: Dict = {"type": "input_image"}
        held = held_by(image)
        if held is not None:
            about["image_url"] = _data_url(held[0] or "image/png", held[1])
        elif image.url:
            about["image_url"] = image.url
        else:
            return _text(f"[image {image.path}]".replace(" ]", "]"))
        about["detail"] = image.detail or "auto"
        return about
    if kind == "document":
        return _file(part.document)
    if kind in ("audio", "video"):
        return _text(f"[{kind}]")
    text = "".join(texts_of([part]))
    return _text(text) if text else None


def _file(document: memory.Media) -> Dict:
    held = held_by(document)
    if held is None:
        if document.url.startswith(("http://", "https://")):
            return {"type": "input_file", "file_url": document.url}
        named = " ".join(filter(None, (document.title, document.path or document.url)))
        return _text(f"[document {named}]".replace(" ]", "]"))
    mime_type, data = held
    return {"type": "input_file", "filename": document.title or "document",
            "file_data": _data_url(mime_type or "application/octet-stream", data)}


def _data_url(mime_type: str, data: bytes) -> str:
    return f"data:{mime_type};base64,{base64.b64encode(data).decode()}"


def _text(text: str) -> Dict:
    return {"type": "input_text", "text": text}
