"""The server of memoryd."""

import os


def binary() -> str:
    """The path of the server's binary, which finds what it reads beside itself."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "memoryd")
