"""Random text and JSON as agents really produce it: all sizes, depths and characters."""

from __future__ import annotations

import json
import random
from typing import Any

_WORDS = ("", "a", "it's \"so\"", "é", "日本語", "👩\u200d🚀", "\0", "line\nline\r", "\\u0000", "</tag>",
          "\ud83d\ude00", "cut \ud83d", "\ude00 late", "\ude00\ud83d", "\ufeff\u202e", "{\"a\": 1}", "nul\0l")
_NUMBERS = (0, -1, 1.0, -0.0, 1e-7, 1e300, 2**53 + 1, -(10**30), 10**450, 0.1)


def canonical(value: Any) -> str:
    """A JSON value as text, pairs of halves of characters joined: equal for what is the same."""
    text = json.dumps(value, ensure_ascii=False)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class Odd:
    """Values of one seed. `keys` are those of its objects."""

    def __init__(
        self, seed: int, keys: tuple[str, ...] = ("a", "b", "é", "", "\0", "k\ud83d", "1")
    ) -> None:
        self.random = random.Random(seed)
        self._keys = keys
        self._may_be_large = True

    def begin(self) -> None:
        """Begins a message: of what is large each has one, since requests have a limit."""
        self._may_be_large = True

    def _is_large(self, one_in: int) -> bool:
        large = self._may_be_large and self.one_in(one_in)
        self._may_be_large = self._may_be_large and not large
        return large

    def one_in(self, count: int) -> bool:
        return self.random.randrange(count) == 0

    def text(self) -> str:
        text = " ".join(self.random.choices(_WORDS, k=self.random.choice((1, 1, 1, 2, 5))))
        if self._is_large(100):
            text = (text + "x") * 1_000
        if self._is_large(150):
            text += self.random.choice(("y" * 1_100_000, "日" * 400_000))
        return text

    def id(self) -> str:
        if self.one_in(30):
            return self.random.choice(("s" * 5_000, "s" * 20_000, "half \ud83d", "nul\0", " "))
        return f"call_{self.random.randrange(50)}"

    def number(self) -> int | float:
        return self.random.choice(_NUMBERS)

    def json(self, depth: int = 3) -> Any:
        kind = self.random.randrange(10 if depth else 6)
        if kind < 3:
            return self.text()
        if kind < 5:
            return self.number()
        if kind == 5:
            return self.random.choice((None, True, False))
        if kind < 8:
            return [self.json(depth - 1) for _ in range(self.random.randrange(4))]
        return self.object(depth - 1)

    def object(self, depth: int = 3) -> dict[str, Any]:
        if self._is_large(60):
            return self.random.choice((
                {f"k{number}": number for number in range(1_100)},
                {"k" * 1_100: 1},
                self._deep(self.random.choice((60, 64, 65, 70, 200))),
                {"large": "z" * 300_000},
            ))
        return {self.random.choice(self._keys): self.json(depth)
                for _ in range(self.random.randrange(4))}

    def _deep(self, levels: int) -> dict[str, Any]:
        value: Any = 1
        for level in range(levels):
            value = {"d": value} if level % 2 else [value]
        return {"deep": value}
