"""Items of OpenAI's Responses API of every type that its package knows; a seed makes them."""

from __future__ import annotations

import random
from typing import Any

from support.conversations import PDF, PNG, encoded
from support.odd_values import Odd

Item = dict[str, Any]

_URL = f"data:image/png;base64,{encoded(PNG)}"


def parallel_calls() -> list[Item]:
    """A chat in which the model calls a tool twice at once, behind a text."""
    def called(call_id: str) -> Item:
        return {"type": "function_call", "call_id": call_id, "name": "weather", "arguments": "{}"}

    def answered(call_id: str) -> Item:
        return {"type": "function_call_output", "call_id": call_id, "output": "sun"}

    return [{"role": "user", "content": "Weather?"}, {"role": "assistant", "content": "I look."},
            called("c1"), called("c2"), answered("c1"), answered("c2"),
            {"role": "assistant", "content": "Sun."}]


class ItemTeller:
    """Items one after the other. Every fourth call is answered late, twice or never."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.odd = Odd(seed)
        self._open: list[tuple[str, str]] = []
        self._count = 0

    def item(self) -> Item:
        self.odd.begin()
        kind = self.random.choice(KINDS)
        return getattr(self, f"_{kind}")()

    def _id(self, prefix: str) -> str:
        self._count += 1
        return self.odd.id() if self.odd.one_in(20) else f"{prefix}_{self._count}"

    def _said(self) -> str:
        return self.odd.text()

    def _easy(self) -> Item:
        role = self.random.choice(("user", "user", "assistant", "system", "developer"))
        made: Item = {"role": role, "content": self._said()}
        if self.odd.one_in(3):
            made["type"] = "message"
        return made

    def _inputs(self) -> Item:
        return {"type": "message", "role": "user", "content": [
            self.random.choice((
                {"type": "input_text", "text": self._said()},
                {"type": "input_image", "image_url": _URL, "detail": "low"},
                {"detail": "auto", "image_url": "https://a.example/a.png", "type": "input_image"},
                {"type": "input_image", "file_id": "file-1", "detail": "high"},
                {"type": "input_file", "filename": "a.pdf",
                 "file_data": f"data:application/pdf;base64,{encoded(PDF)}"},
                {"type": "input_file", "file_id": "file-2"},
                {"type": "input_file", "file_url": "https://a.example/a.pdf"},
                {"type": "input_audio", "input_audio": {"data": encoded(b"RIFF"), "format": "wav"}},
                {"type": "input_of_next_year", "value": self.odd.json()},
            )) for _ in range(self.random.randrange(4))]}

    def _output(self) -> Item:
        return {"id": self._id("msg"), "type": "message", "role": "assistant",
                "status": "completed", "content": [
                    {"type": "output_text", "text": self._said(), "annotations": [
                        {"type": "url_citation", "start_index": 0, "end_index": 1, "title": "t",
                         "url": "https://a.example"}], "logprobs": []},
                    {"type": "refusal", "refusal": self._said()}][:self.random.randrange(1, 3)]}

    def _reasoning(self) -> Item:
        return {"id": self._id("rs"), "type": "reasoning",
                "summary": [{"type": "summary_text", "text": self._said()}][:self.random.randrange(2)],
                "content": [{"type": "reasoning_text", "text": self._said()}],
                "encrypted_content": encoded(PNG)}

    def _called(self, kind: str) -> str:
        made = self._id("call")
        self._open.append((made, kind))
        return made

    def _function(self) -> Item:
        return {"arguments": self.random.choice(('{"city": "Lyon"}', "{", "", self._said())),
                "call_id": self._called("function"), "name": self.random.choice(("a", "run-b", "ü")),
                "type": "function_call", "id": self._id("fc"), "status": "completed"}

    def _custom(self) -> Item:
        return {"type": "custom_tool_call", "call_id": self._called("custom_tool"), "name": "sql",
                "input": self._said()}

    def _computer(self) -> Item:
        return {"id": self._id("cu"), "type": "computer_call", "call_id": self._called("computer"),
                "action": {"type": "click", "x": 1, "y": 2.0, "button": "left"},
                "pending_safety_checks": [], "status": "completed"}

    def _shell(self) -> Item:
        return {"type": "shell_call", "call_id": self._called("shell"), "status": None,
                "action": {"commands": ["ls", self._said()], "timeout_ms": 10**12}}

    def _patch(self) -> Item:
        return {"type": "apply_patch_call", "call_id": self._called("apply_patch"),
                "operation": {"type": "update_file", "path": "a", "diff": self._said()},
                "status": "completed"}

    def _local_shell(self) -> Item:
        return {"id": self._called("local_shell"), "call_id": self._id("ls"),
                "type": "local_shell_call", "status": "completed",
                "action": {"type": "exec", "command": ["ls"], "env": {"A": self._said()}}}

    def _answer(self) -> Item:
        if not self._open or self.odd.one_in(8):
            self._open.append((self._id("unknown"), "function"))
        at = self.random.randrange(len(self._open))
        called, kind = self._open[at] if self.odd.one_in(4) else self._open.pop(at)
        if kind == "computer":
            output: Any = {"type": "computer_screenshot", "image_url": _URL}
        elif kind == "shell":
            output = [{"stdout": self._said(), "stderr": "", "outcome": {
                "type": "exit", "exit_code": 1}}]
        else:
            output = self.random.choice((
                self._said(), "", '{"a": 1}',
                [{"type": "input_text", "text": self._said()},
                 {"type": "input_image", "image_url": _URL}, {"type": "input_text", "text": "b"}],
                [], self.odd.json()))
        made: Item = {"type": f"{kind}_call_output", "output": output}
        made["id" if kind == "local_shell" else "call_id"] = called
        if self.odd.one_in(3):
            made["status"] = self.random.choice(("completed", "failed", "incomplete"))
        return made

    def _hosted(self) -> Item:
        return self.random.choice((
            {"id": self._id("fs"), "type": "file_search_call", "queries": [self._said()],
             "status": "completed", "results": [{"text": self._said(), "score": 0.5}]},
            {"id": self._id("ws"), "type": "web_search_call", "status": "completed",
             "action": {"type": "search", "query": self._said()}},
            {"id": self._id("ig"), "type": "image_generation_call", "status": "completed",
             "result": encoded(PNG)},
            {"id": self._id("ig"), "type": "image_generation_call", "status": "failed",
             "result": None},
            {"id": self._id("ci"), "type": "code_interpreter_call", "code": self._said(),
             "container_id": "c", "outputs": [{"type": "logs", "logs": self._said()}],
             "status": "completed"},
            {"id": self._id("mcp"), "type": "mcp_list_tools", "server_label": "s", "tools": [
                {"name": "t", "input_schema": {"type": "object"}}]},
            {"id": self._id("mcp"), "type": "mcp_approval_request", "arguments": "{}",
             "name": "t", "server_label": "s"},
            {"type": "mcp_approval_response", "approval_request_id": "r", "approve": True,
             "reason": self._said()},
            {"id": self._id("mcp"), "type": "mcp_call", "arguments": "{}", "name": "t",
             "server_label": "s", "output": self._said(), "error": None},
            {"type": "tool_search_call", "call_id": self._id("ts"), "arguments": self.odd.json(),
             "execution": "client"},
            {"type": "tool_search_output", "call_id": self._id("ts"), "tools": []},
            {"type": "additional_tools", "role": "developer", "tools": []},
            {"id": self._id("cmp"), "type": "compaction", "encrypted_content": encoded(PDF)},
            {"type": "compaction_trigger"},
            {"type": "item_reference", "id": self._id("msg")},
            {"type": "program", "id": self._id("p"), "call_id": self._id("p"), "code": self._said(),
             "fingerprint": "f"},
            {"type": "program_output", "id": self._id("p"), "call_id": self._id("p"),
             "result": self._said(), "status": "completed"},
        ))

    def _odd(self) -> Any:
        """What is no item, and is stored all the same."""
        return self.random.choice((
            {}, {"type": None}, {"role": ""}, {"role": 7, "content": "x"}, {"content": None},
            {"type": "function_call"}, {"type": "function_call_output", "output": None},
            {"type": "reasoning", "summary": "x"}, {"role": "half \ud83d", "content": ["x", None]},
            {"role": "user", "content": {"$part": [0, "text"]}}, {"$part": ["name"]},
            {"type": "future_item", "value": self.odd.json()}, self.odd.object(), "text", None, 7,
            [self.odd.json()]))


KINDS = ("easy", "easy", "inputs", "output", "reasoning", "function", "function", "custom",
         "computer", "shell", "patch", "local_shell", "answer", "answer", "answer", "answer",
         "hosted", "odd")
