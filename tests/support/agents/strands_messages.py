"""Messages of Strands with blocks of every kind that its types know; a seed makes them."""

from __future__ import annotations

import random
from typing import Any

from support.conversations import PDF, PNG
from support.odd_values import Odd

Dict = dict[str, Any]

_S3 = {"location": {"type": "s3", "uri": "s3://a/b.png", "bucketOwner": "1"}}


class MessageTeller:
    """Messages one after the other. Calls are answered late, twice or never."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.odd = Odd(seed, keys=("a", "b", "é", "", "\0", "1"))

    def message(self) -> Dict:
        self.odd.begin()
        kinds = self.random.choices(KINDS, k=self.random.choice((0, 1, 1, 1, 2, 3)))
        made: Dict = {"role": self.random.choice(("user", "user", "assistant")),
                      "content": [getattr(self, f"_{kind}")() for kind in kinds]}
        if self.odd.one_in(2):
            made["tracking_id"] = self._text()
        if self.odd.one_in(3):
            made["metadata"] = {"usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3},
                                "metrics": {"latencyMs": 1.5}, "custom": self.state()}
        return made

    def state(self) -> Dict:
        return without_halves(self.odd.object())

    def _text(self) -> Any:
        return without_halves(self.odd.text())

    def _said(self) -> Dict:
        return {"text": self._text()}

    def _use(self) -> Dict:
        made: Dict = {"input": without_halves(self.odd.json()), "name": self.random.choice(("a", "ü", "")),
                      "toolUseId": self._id()}
        if self.odd.one_in(4):
            made["reasoningSignature"] = "signed"
        return {"toolUse": made}

    def _id(self) -> str:
        return without_halves(self.odd.id())

    def _result(self) -> Dict:
        content = [self.random.choice((
            {"text": self._text()}, {"json": without_halves(self.odd.json())}, self._image(),
            self._document(), {"text": ""},
        )) for _ in range(self.random.randrange(4))]
        return {"toolResult": {"content": content, "toolUseId": self._id(),
                               "status": self.random.choice(("success", "error"))}}

    def _reasoning(self) -> Dict:
        return {"reasoningContent": self.random.choice((
            {"reasoningText": {"text": self._text(), "signature": "signed"}},
            {"reasoningText": {"text": self._text(), "signature": None}},
            {"reasoningText": {"text": self._text()}}, {"redactedContent": PNG}, {}))}

    def _image(self) -> Dict:
        return {"image": {"format": self.random.choice(("png", "webp")),
                          "source": self.random.choice(({"bytes": PNG}, {"bytes": b""}, _S3, {}))}}

    def _document(self) -> Dict:
        made = {"format": self.random.choice(("pdf", "txt", "md")), "name": self._text(),
                "source": self.random.choice(({"bytes": PDF}, _S3))}
        if self.odd.one_in(3):
            made["citations"] = {"enabled": True}
            made["context"] = self._text()
        return {"document": made}

    def _video(self) -> Dict:
        return {"video": {"format": "three_gp", "source": {"bytes": PNG}}}

    def _audio(self) -> Dict:
        return {"audio": {"format": "wav", "source": {"bytes": b"RIFF"}}}

    def _cited(self) -> Dict:
        return {"citationsContent": {
            "citations": [{"title": "t", "location": {"web": {"url": "https://a.example"}},
                           "sourceContent": [{"text": self._text()}]}],
            "content": [{"text": self._text()}]}}

    def _guarded(self) -> Dict:
        return {"guardContent": {"text": {"text": self._text(), "qualifiers": ["query"]}}}

    def _cache(self) -> Dict:
        return {"cachePoint": {"type": "default", "ttl": "5m"}}

    def _both(self) -> Dict:
        return {**self._said(), **self._cache()}

    def _future(self) -> Dict:
        return {"blockOfNextYear": self.state(), "raw": PNG}


KINDS = tuple(name[1:] for name, value in vars(MessageTeller).items() if name.startswith("_")
              and callable(value) and name not in ("__init__", "_text", "_id"))


def without_halves(value: Any) -> Any:
    """The value without halves of characters, which the library's own store of files refuses."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [without_halves(one) for one in value]
    if isinstance(value, dict):
        return {without_halves(key): without_halves(one) for key, one in value.items()}
    return value
