"""The server that `make run` builds is hardened as the image's is."""

from support.hardening import check_hardened
from support.paths import BINARY


def test_the_binary_is_hardened():
    check_hardened(BINARY)
