#!/usr/bin/env python3
"""Writes core/tokens/testdata/token_goldens.jsonl: strings and what tiktoken and Python count.

    pip install tiktoken==0.14.0
    tools/tokens/generate_token_goldens.py --vocabulary build/share/memoryd \
        > core/tokens/testdata/token_goldens.jsonl

Each line is [text, cl100k_base, o200k_base, whitespace].
"""

import argparse
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "tokens"))
import compare_tiktoken as compare

CHOSEN = [
    "Hello, world!", "Hello, world to you too!", "What is the capital of France?",
    "The capital of France is Paris.", "don't I'LL you'Ve 'ſo we'd'S", "a<|endoftext|>b",
    "  <|fim_prefix|>\n\n<|endofprompt|> ", "1234567 12 ١٢٣٤", "x  \n \n  y", "x \n ",
    "!\r\n\r\n/a", "HTMLParser camelCase ǅungla ʰA", "A\u0301b \u0301\u0301 !\u0301 \u0301AB",
    "A\u0301's B's \u0301's",
    "def f(x):\n\treturn  x ** 2\n\n\n",
    "Ünïcödé नमस्ते สวัสดี こんにちは 你好", "\u001c\u0085\u00a0\u200b\ufeff\u3000x",
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vocabulary", required=True, help="the folder of the vocabularies")
    arguments = parser.parse_args()
    encodings = [compare.load_tiktoken(name, arguments.vocabulary)
                 for name in ["cl100k_base", "o200k_base"]]

    rng = random.Random(11)
    texts = CHOSEN + compare.SPECIALS + compare.EMOJI + compare.PATTERN_ATOMS
    texts += [unit * size for unit in "aA \n!0é中" for size in [2, 8, 95, 97, 130]]
    for size in [1, 2, 3, 4, 6, 9, 14, 30]:
        for _ in range(16):
            texts.append("".join(rng.choice(compare.PATTERN_ATOMS) for _ in range(size)))
    for _ in range(30):
        texts.append(compare.script_text(rng))
        texts.append(compare.mutated(rng, compare.message(rng, rng.randint(1, 60))))
        texts.append("".join(compare.random_char(rng) for _ in range(rng.randint(1, 12))))
    for text in dict.fromkeys(texts):
        counts = [len(encoding.encode(text, allowed_special="all")) for encoding in encodings]
        print(json.dumps([text, *counts, len(text.split())]))


if __name__ == "__main__":
    main()
