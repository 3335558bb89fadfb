"""Any text as a name of a namespace, or as a part of an item's key."""

from __future__ import annotations

import hashlib
import urllib.parse

# The most bytes of a name in the path of a namespace.
MAX_NAME_BYTES = 256
_SAFE = " !$&'()*+,:;=@|"


def quoted(text: str, safe: str = _SAFE) -> str:
    """The text as a name or a part of a key. Never empty, and different for different texts."""
    if not text:
        return "%"
    made = urllib.parse.quote(text, safe=safe, errors="surrogatepass")
    if made[0] == " " or made[-1] == " ":
        made = made.replace(" ", "%20")
    if len(made) <= MAX_NAME_BYTES:
        return made
    return "#" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def unquoted(name: str) -> str:
    """The text of a name that is no hash."""
    return "" if name == "%" else urllib.parse.unquote(name, errors="surrogatepass")
