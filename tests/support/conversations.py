"""Conversations as applications have them, in OpenAI's and in Anthropic's form; a seed makes one."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

Message = dict[str, Any]

TEXTS = (
    "What is the weather in Lyon?", "Ça va? 👩‍👩‍👧 तेज़ 日本語", "one\ntwo\r\n\tthree", " spaces ",
    "\u0000 NUL",
    '{"looks": "like JSON"}', "$part", "x" * 3000, "<think>no</think>", "‮right to left",
)
TOOLS = ("search", "get_weather", "run-code", "files_read")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(200))
PDF = b"%PDF-1.4 " + bytes(range(100))


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


class Teller:
    """What both forms have."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.count = 0

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def text(self) -> str:
        return f"{self.random.choice(TEXTS)} {self.random.randrange(1000)}"

    def id(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}_{self.seed}_{self.count}"

    def arguments(self) -> dict[str, Any]:
        return self.random.choice((
            {}, {"city": "Lyon", "days": 3}, {"b": 1.0, "a": [1, None, True], "ü": {"$part": [0]}},
            {"query": self.text(), "big": 10**30, "small": 1e-9},
        ))

    def conversation(self) -> list[Message]:
        """By a form's own messages: system, user, step, answer and cut."""
        told = [self.system()] if self.chance(0.6) else []
        for _ in range(self.random.randint(1, 5)):
            told.append(self.user())
            for _ in range(self.random.randint(0, 2)):
                told.extend(self.step())
            told.append(self.answer())
        if self.chance(0.3):
            told.append(self.user())
            told.append(self.cut())
        return [self.shuffled(message) for message in told]

    def shuffled(self, message: Message) -> Message:
        """The message with its keys in another order, now and then."""
        if not self.chance(0.2):
            return message
        keys = list(message)
        self.random.shuffle(keys)
        return {key: message[key] for key in keys}


class OpenAITeller(Teller):
    """Conversations of OpenAI's chat completions."""

    def system(self) -> Message:
        role = self.random.choice(("system", "developer"))
        return {"role": role, "content": self.text() if self.chance(0.7) else [
            {"type": "text", "text": self.text()} for _ in range(self.random.randint(1, 2))]}

    def user(self) -> Message:
        made: Message = {"role": "user", "content": self.text()}
        if self.chance(0.1):
            made["content"] = ""
        elif self.chance(0.5):
            made["content"] = [self.part() for _ in range(self.random.randint(1, 4))]
        if self.chance(0.2):
            made["name"] = "logan_1"
        return made

    def part(self) -> Message:
        return self.random.choice((
            {"type": "text", "text": self.text()},
            {"type": "text", "text": ""},
            {"type": "image_url", "image_url": {"url": f"https://a.example/{self.count}.png"}},
            {"type": "image_url", "image_url": {
                "url": f"data:image/png;base64,{encoded(PNG)}", "detail": "low"}},
            {"image_url": {"detail": "high", "url": "data:image/bmp;base64,Qk0="},
             "type": "image_url"},
            {"type": "input_audio", "input_audio": {"data": encoded(b"RIFF"), "format": "wav"}},
            {"type": "file", "file": {"file_id": "file-abc"}},
            {"type": "file", "file": {
                "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{encoded(PDF)}"}},
        ))

    def calls(self) -> list[Message]:
        made: list[Message] = []
        for _ in range(self.random.choice((1, 1, 2, 5))):
            if self.chance(0.15):
                made.append({"id": self.id("call"), "type": "custom",
                             "custom": {"name": "sql", "input": "SELECT 1;\n"}})
                continue
            called = self.id("call") if self.chance(0.9) else f"call|{self.id('x' * 300)}"
            made.append({"id": called, "type": "function", "function": {
                "name": self.random.choice(TOOLS), "arguments": self.written()}})
        return made

    def written(self) -> str:
        whole = json.dumps(self.arguments(), indent=self.random.choice((None, 2)))
        return self.random.choice((whole, whole, whole, whole[:-1], ""))

    def step(self) -> list[Message]:
        """Calls and their results."""
        if self.chance(0.1):
            return [{"role": "assistant", "content": None, "function_call": {
                         "name": "search", "arguments": self.written()}},
                    {"role": "function", "name": "search", "content": self.text()}]
        calls = self.calls()
        made: Message = {"role": "assistant", "content": self.random.choice((None, "", self.text())),
                         "tool_calls": calls}
        if self.chance(0.2):
            del made["content"]
        if self.chance(0.3):
            made["reasoning_content"] = self.text()
        results = []
        for call in self.random.sample(calls, len(calls)):
            content: Any = self.random.choice(("", self.text(), json.dumps(self.arguments())))
            if self.chance(0.2):
                content = [{"type": "text", "text": self.text()}
                           for _ in range(self.random.randint(1, 3))]
            results.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        return [made, *results]

    def answer(self) -> Message:
        return self.random.choice((
            {"role": "assistant", "content": self.text()},
            {"role": "assistant", "content": ""},
            {"role": "assistant", "content": self.text(), "refusal": None, "annotations": []},
            {"role": "assistant", "content": None, "refusal": "I can't help with that."},
            {"role": "assistant", "content": [{"type": "text", "text": self.text()},
                                              {"type": "refusal", "refusal": "No."}]},
            {"role": "assistant", "content": self.text(), "reasoning_content": self.text()},
            {"role": "assistant", "content": None, "audio": {"id": "audio_abc"}},
            {"role": "assistant", "content": self.text(), "annotations": [{
                "type": "url_citation", "url_citation": {
                    "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 4}}]},
        ))

    def cut(self) -> Message:
        """What a stream had said when it was cut."""
        return self.random.choice((
            {"role": "assistant", "content": self.text()[:3]},
            {"role": "assistant", "content": ""},
            {"role": "assistant", "content": "Let me", "tool_calls": [{
                "id": self.id("call"), "type": "function",
                "function": {"name": "search", "arguments": '{"query": "wea'}}]},
            {"role": "assistant", "content": None, "tool_calls": [{
                "id": self.id("call"), "type": "function",
                "function": {"name": "search", "arguments": ""}}]},
        ))


class AnthropicTeller(Teller):
    """Conversations of Anthropic's API; a system message stands first."""

    def system(self) -> Message:
        return {"role": "system", "content": self.text() if self.chance(0.5) else [
            {"type": "text", "text": self.text(), "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": self.text()}]}

    def user(self) -> Message:
        if self.chance(0.5):
            return {"role": "user", "content": self.text()}
        return {"role": "user",
                "content": [self.block() for _ in range(self.random.randint(1, 4))]}

    def block(self) -> Message:
        return self.random.choice((
            {"type": "text", "text": self.text()},
            {"type": "text", "text": self.text(), "cache_control": {"type": "ephemeral",
                                                                    "ttl": "1h"}},
            self.image(),
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf",
                                            "data": encoded(PDF)}, "title": "A paper"},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain",
                                            "data": self.text()},
             "citations": {"enabled": True}, "context": "from the web"},
            {"type": "document", "source": {"type": "url", "url": "https://a.example/a.pdf"}},
            {"type": "document", "source": {"type": "content", "content": [
                {"type": "text", "text": self.text()}]}},
            {"type": "document", "source": {"type": "file", "file_id": "file_abc"}},
            self.search_result(),
        ))

    def image(self) -> Message:
        return self.random.choice((
            {"type": "image", "source": {"type": "base64", "media_type": "image/png",
                                         "data": encoded(PNG)}},
            {"type": "image", "source": {"type": "url", "url": "https://a.example/a.png"}},
            {"source": {"file_id": "file_abc", "type": "file"}, "type": "image"},
        ))

    def search_result(self) -> Message:
        return {"type": "search_result", "source": "https://a.example", "title": "A",
                "content": [{"type": "text", "text": self.text()}],
                "citations": {"enabled": True}}

    def step(self) -> list[Message]:
        """Calls and their results, with what else the messages have."""
        blocks = self.thinking()
        calls = [{"type": "tool_use", "id": self.id("toolu"), "name": self.random.choice(TOOLS),
                  "input": self.arguments()} for _ in range(self.random.choice((1, 1, 2, 5)))]
        if self.chance(0.5):
            blocks.append({"type": "text", "text": self.text()})
        results = [self.result(call["id"]) for call in self.random.sample(calls, len(calls))]
        after = [self.block()] if self.chance(0.3) else []
        return [{"role": "assistant", "content": blocks + calls},
                {"role": "user", "content": results + after}]

    def result(self, called: str) -> Message:
        made: Message = {"type": "tool_result", "tool_use_id": called}
        if self.chance(0.9):
            made["content"] = self.random.choice((
                "", self.text(), [], [{"type": "text", "text": self.text()}],
                [{"type": "text", "text": self.text()}, self.image(),
                 {"type": "text", "text": self.text()}, self.search_result()],
                [self.image()],
            ))
        if self.chance(0.3):
            made["is_error"] = self.chance(0.5)
        if self.chance(0.1):
            made["cache_control"] = {"type": "ephemeral"}
        return made

    def thinking(self) -> list[Message]:
        return self.random.choice((
            [], [],
            [{"type": "thinking", "thinking": self.text(), "signature": "EqQBCgIYAg=="}],
            [{"type": "thinking", "thinking": "", "signature": "EqQBCgIYAg=="},
             {"type": "redacted_thinking", "data": "EmwKAhgB"}],
        ))

    def answer(self) -> Message:
        said = self.text()
        return {"role": "assistant", "content": self.random.choice((
            said, said,
            [],
            [{"type": "text", "text": said}],
            [*self.thinking(), {"type": "text", "text": said}],
            [{"type": "text", "text": said, "citations": [{
                "type": "char_location", "cited_text": "words", "document_index": 0,
                "document_title": None, "start_char_index": 0, "end_char_index": 5}]}],
            [{"type": "server_tool_use", "id": self.id("srvtoolu"), "name": "web_search",
              "input": {"query": "weather"}},
             {"type": "web_search_tool_result", "tool_use_id": f"srvtoolu_{self.seed}_{self.count}",
              "content": [{"type": "web_search_result", "url": "https://a.example", "title": "A",
                           "encrypted_content": "EqgfCioIARgBIiQ3", "page_age": None}]},
             {"type": "text", "text": said}],
        ))}

    def cut(self) -> Message:
        """What a stream had said when it was cut."""
        return {"role": "assistant", "content": self.random.choice((
            [],
            "The ans",
            [{"type": "text", "text": ""}],
            [{"type": "thinking", "thinking": "The user", "signature": ""}],
            [{"type": "text", "text": "Let me"},
             {"type": "tool_use", "id": self.id("toolu"), "name": "search", "input": {}}],
        ))}
