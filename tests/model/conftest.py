import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from model_process import LLAMA, MINILM, ModelProcess
from support.fixtures import session_id  # noqa: F401  (a fixture)


@pytest.fixture(scope="module")
def chat_model():
    with ModelProcess("llama", LLAMA) as model:
        yield model


@pytest.fixture(scope="module")
def embedder():
    with ModelProcess("minilm", MINILM) as model:
        yield model
