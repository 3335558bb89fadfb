"""The server that `make run` builds is hardened as the image's is."""

import pytest

from support.hardening import check_hardened, readelf
from support.paths import BINARY


def test_the_binary_is_hardened():
    if "__asan_init" in readelf(BINARY, "--syms") or "__tsan_init" in readelf(BINARY, "--syms"):
        pytest.skip("sanitizers take the place of checked buffers")
    check_hardened(BINARY)
