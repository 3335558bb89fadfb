"""Makes the pictures of docs/INSPECTOR.md and of the README.

usage: build/ui-venv/bin/python tests/ui/pictures.py [FOLDER]    default: docs/images

They show a server with the store of these tests, and with conversations of frameworks' own agents.
`make test-ui` makes pictures of every view in build/ui, in light and dark, wide and narrow.
"""

from __future__ import annotations

import base64
import pathlib
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1])]

import frameworks
import stored
from browser import NARROW, Browser, place
from support.blocks import models_file
from support.http import LISTEN
from support.model_server import ModelServer
from support.paths import REPOSITORY
from support.server import Server

WIDE = (1280, 800)
TRIP = ("session", stored.TRIP)
QUESTION = "Does the dog need a ticket?"
PICTURES = {
    "inspector": (place(*TRIP, "context", question=QUESTION), WIDE, "light"),
    "inspector-sessions": (place("sessions"), WIDE, "light"),
    "inspector-messages": (place(*TRIP), WIDE, "dark"),
    "inspector-memory": (place(*TRIP, "memory"), WIDE, "light"),
    "inspector-search": (place(*TRIP, "search", q="train to Porto"), WIDE, "dark"),
    "inspector-jobs": (place("session", "job-that-failed", "jobs"), WIDE, "light"),
    "inspector-subject": (place("subject", stored.ADA), WIDE, "dark"),
    "inspector-chat-narrow": (place("session", "chat-openai-agents"), NARROW, "light"),
    "inspector-context-narrow": (place("session", stored.SHOP, "context"), NARROW, "dark"),
}
QUALITY = 72


def main() -> None:
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else REPOSITORY / "docs" / "images"
    with (ModelServer() as models, tempfile.TemporaryDirectory() as scratch,
          Server("sqlite::memory:", arguments=[models_file(pathlib.Path(scratch), models), LISTEN,
                                               "--job-retry-ms=20", "--job-attempts=3"]) as server,
          Browser() as browser):
        stored.fill(stored.Storing(server.http), models)
        frameworks.tell(server.target)
        browser.open(server.http)
        for name, (where, size, scheme) in PICTURES.items():
            browser.look(size, scheme)
            browser.go(where)
            if name == "inspector-sessions":
                browser.one("tr .badge.bad")  # It comes after the list.
            # Nothing has the focus, and what a picture is about stands in it.
            browser.script("document.activeElement.blur()")
            shot = browser.command("Page.captureScreenshot", format="webp", quality=QUALITY)
            data = base64.b64decode(shot["data"])
            (folder / f"{name}.webp").write_bytes(data)
            print(f"{name}: {len(data)} bytes")


if __name__ == "__main__":
    main()
