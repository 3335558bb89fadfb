#!/usr/bin/env python3
"""llama.cpp's server for tests: answers of at most 160 tokens, on one thread.

usage: llama_server.py MODEL PORT

A weak model that is asked for a list may go on until its window is full. AMX, which llama.cpp uses
through its extra buffers, is named by processors of some virtual machines that fault when it is used.
"""

from __future__ import annotations

import sys
from typing import Any

import llama_cpp
from llama_cpp.server.__main__ import main

MOST_TOKENS = 160

_default_params = llama_cpp.llama_cpp.llama_model_default_params
_complete = llama_cpp.Llama.create_chat_completion


def without_extra_buffers() -> Any:
    params = _default_params()
    params.use_extra_bufts = False
    return params


def complete(self: llama_cpp.Llama, *arguments: Any, **options: Any) -> Any:
    options["max_tokens"] = min(options.get("max_tokens") or MOST_TOKENS, MOST_TOKENS)
    return _complete(self, *arguments, **options)


if __name__ == "__main__":
    llama_cpp.llama_cpp.llama_model_default_params = without_extra_buffers
    llama_cpp.Llama.create_chat_completion = complete
    model, port = sys.argv[1:]
    sys.argv[1:] = ["--model", model, "--chat_format", "gemma", "--n_ctx", "2048",
                    "--n_threads", "1", "--n_threads_batch", "1", "--verbose", "false",
                    "--host", "127.0.0.1", "--port", port]
    main()
