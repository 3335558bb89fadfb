"""Long sessions and many of them: what is asked for, how soon it is there, what the tab takes.

With --full they have the sizes that the inspector is made for, and its figures are printed."""

from __future__ import annotations

import concurrent.futures
import pathlib
import statistics
import time

import pytest

import stored
from browser import WIDE, place
from support.http import LISTEN
from support.server import Server

MEBIBYTE = 1 << 20
TAB_BYTES = 200 * MEBIBYTE
AT_ONCE = 8  # Sessions that are made in parallel.
# Scrolls as far as the list goes, and waits until what comes into sight is there.
SCROLL = """
const [far, done] = [arguments[0], arguments[arguments.length - 1]];
const chat = document.querySelector(".chat");
const begun = performance.now();
const step = () => {
  if (document.querySelector(".page-edge").textContent.includes(far)) {
    return done(document.querySelectorAll("article.message").length);
  }
  if (performance.now() - begun > 20000) return done(-1);
  chat.scrollTop = far.includes("begins") ? 0 : chat.scrollHeight;
  setTimeout(step, 5);
};
step();
"""


@pytest.fixture(scope="module")
def long(tmp_path_factory, request):
    is_full = request.config.getoption("--full")
    store = f"sqlite:{tmp_path_factory.mktemp('long') / 'memory.db'}"
    with Server(store, arguments=[LISTEN]) as server:
        call = stored.Storing(server.http)
        server.messages, server.sessions = (100_000, 100_000) if is_full else (3_000, 300)
        call("CreateSession", sessionId="long", config={"tokenLimit": "100000", "tokenizer": "whitespace"})
        for begin in range(0, server.messages, 1000):
            call("Put", sessionId="long", messages=[
                stored.said("user" if number % 2 else "assistant",
                            f"message {number} " + "of some words " * 8)
                for number in range(begin + 1, begin + 1001)])
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(create, [server.http] * AT_ONCE, range(AT_ONCE), [server.sessions] * AT_ONCE))
        yield server


def create(address: str, begin: int, sessions: int) -> None:
    """Each AT_ONCE-th session, in no order of their ids."""
    call = stored.Storing(address)
    for number in range(begin, sessions, AT_ONCE):
        call("CreateSession", sessionId=f"session-{number * 7919 % sessions:06}-of-many")


@pytest.fixture
def opened(browser, long):
    browser.look(WIDE, "light")
    browser.open(long.http)
    # Else the recorder would keep all that the page drops.
    browser.script("window.seen.keeps = false")
    yield browser


def tab_bytes() -> int:
    """Memory of its own of the largest process that draws pages."""
    found = [0]
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if b"--type=renderer" in (process / "cmdline").read_bytes():
                status = (process / "status").read_text()
                fields = dict(line.split(":", 1) for line in status.splitlines())
                found.append(int(fields["RssAnon"].split()[0]) * 1024)
        except (OSError, KeyError):
            continue  # It has ended.
    return max(found)


def told(capsys, text: str) -> None:
    with capsys.disabled():
        print(f"\n{text}")


def scroll(opened, far: str) -> tuple[int, int]:
    """To where the text stands; the number of messages that have elements then, and the most bytes of
    the tab on the way."""
    most = 0
    # A long way is gone in several calls.
    while (shown := opened.driver.execute_async_script(SCROLL, far)) == -1:
        most = max(most, tab_bytes())
    return shown, max(most, tab_bytes())


def test_a_long_session_is_scrolled_from_end_to_end(opened, long, capsys):
    opened.go(place("session", "long"))
    assert opened.has(f"message {long.messages} of")
    begun = time.monotonic()
    shown, most = scroll(opened, "The session begins here.")
    there = time.monotonic() - begun
    assert opened.has("message 1 of")
    assert shown <= 1000
    opened.script("document.querySelector('.chat').scrollTop = document.querySelector('.chat').scrollHeight")
    opened.settle()
    assert opened.has(f"message {long.messages} of")
    assert len(opened.all("article.message")) <= 1000
    opened.click("button", "Beginning")
    assert opened.has("message 1 of")
    # What the browser has not collected yet is as much as it likes.
    opened.script("window.gc()")
    taken = tab_bytes()
    told(capsys, f"{long.messages} messages up in {there:.0f} s, {shown} of them with elements; the tab "
                 f"has {taken / MEBIBYTE:.0f} MiB, and had at most {most / MEBIBYTE:.0f} MiB")
    assert taken <= TAB_BYTES


def test_any_message_is_found(opened, long):
    for position in (1, 2, long.messages // 3, long.messages // 2, long.messages - 1, long.messages):
        opened.go(place("session", "long", "messages", position=str(position)))
        assert f"message {position} of" in opened.one("article.is-sought").text
        assert len(opened.all("article.message")) <= 1000


def test_a_search_among_many_sessions(opened, long, capsys):
    found = []
    for number in range(0, long.sessions, max(1, long.sessions // 40)):
        name = f"session-{number:06}-of-many"
        begun = time.monotonic()
        opened.go(place("sessions", prefix=name[:14]))
        found.append(time.monotonic() - begun)
        assert opened.has(name)
    middle, late = statistics.median(found) * 1000, statistics.quantiles(found, n=20)[-1] * 1000
    told(capsys, f"a search among {long.sessions} sessions: median {middle:.0f} ms, 95th percentile "
                 f"{late:.0f} ms, the driver's own included")


def test_the_first_paint(browser, long, capsys):
    browser.look(WIDE, "light")
    browser.open(long.http)
    paint = browser.script("""
      return Math.max(...performance.getEntriesByType("paint").map((one) => one.startTime));""")
    size = browser.script("""
      const all = ["resource", "navigation"].flatMap((kind) => performance.getEntriesByType(kind));
      return all.filter((one) => one.name.includes("/ui/"))
        .reduce((sum, one) => sum + one.encodedBodySize, 0);""")
    told(capsys, f"first paint after {paint:.0f} ms; {size} bytes of files")
    assert 0 < size <= 300_000
