"""What is large, deep or no text, and what happens to a session, or to its server, while it is shown."""

from __future__ import annotations

import base64
import json
import subprocess

import pytest

import stored
from browser import WIDE, folded_open, place
from support.http import LISTEN
from support.paths import BINARY
from support.server import Server, reserved_port
from support.waiting import wait_for

DEEP = "[" * 100 + "]" * 100


@pytest.fixture
def opened(browser, server):
    browser.look(WIDE, "light")
    browser.open(server.http)
    yield browser
    browser.console()


def said(opened) -> str:
    assert opened.seen("ran") == []
    text = opened.text("#main")
    assert "The page failed" not in text
    return text


def test_a_message_of_four_mebibytes_is_shown_in_steps(opened, call):
    call("Put", sessionId="large", messages=[
        {"role": "user", "parts": [{"text": f"part {part} " + "lorem ipsum " * 85_000}
                                   for part in range(4)]}])
    opened.go(place("session", "large"))
    assert "Show more" in said(opened)
    assert opened.script("return document.body.textContent.length") < 100_000
    opened.click("button.link", "Show more")
    assert opened.script("return document.body.textContent.length") > 100_000


def test_a_message_of_a_thousand_parts_shows_the_first(opened, call):
    call("Put", sessionId="many", messages=[
        {"role": "user", "parts": [{"text": f"part {part}"} for part in range(1000)]}])
    opened.go(place("session", "many"))
    text = said(opened)
    assert "part 19" in text and "part 20" not in text
    for left in (980, 880, 780, 680, 580, 480, 380, 280, 180, 80):
        opened.click("button.link", f"Show more: {left} parts left")
    assert "part 999" in said(opened)


def test_what_is_deep_or_no_text_or_of_another_time_is_shown(opened, call):
    junk = base64.b64encode(bytes(range(256))).decode()
    call("Put", sessionId="odd", messages=[
        {"role": "assistant", "createTime": "0001-01-01T00:00:00Z", "parts": [
            {"toolCall": {"callId": "c", "name": "deep", "argumentsJson": DEEP}}]},
        {"role": "tool", "createTime": "9999-12-31T23:59:59Z", "parts": [
            {"toolResult": {"callId": "c", "name": "deep", "text": DEEP}}]},
        {"role": "user", "parts": [
            {"toolCall": {"name": "none", "argumentsJson": "{not: json"}},
            {"opaque": {"type": "raw", "data": junk}}, {"image": {"data": junk, "mimeType": "image/png"}},
            {"audio": {"data": junk, "mimeType": "audio/wav"}},
            {"json": '{"big": 12345678901234567890, "one": 1.0}'}]}])
    opened.go(place("session", "odd"))
    folded_open(opened)
    text = said(opened)
    assert "".join(text.split()).count(DEEP) == 2
    assert "{not: json" in text
    assert "80 81 82" in text
    # Numbers stay as they were stored.
    assert "12345678901234567890" in text
    assert "1.0" in text


def test_live_goes_on_when_the_server_comes_back(browser, tmp_path):
    store = f"sqlite:{tmp_path / 'memory.db'}"
    with reserved_port() as port:
        arguments = [f"--http-listen=127.0.0.1:{port}"]
        with Server(store, arguments=arguments) as server:
            call = stored.Storing(server.http)
            call("Put", sessionId="live", messages=[stored.said("user", "before")])
            browser.open(server.http, place("session", "live"))
            browser.click("button", "Live")
            wait_for(lambda: browser.text(".chat-status").startswith("Live"))
            call("Put", sessionId="live", messages=[stored.said("user", "meanwhile")])
            browser.wait_text("meanwhile")
        browser.wait_text("does not answer")
        with Server(store, arguments=arguments) as server:
            call = stored.Storing(server.http)
            call("Put", sessionId="live", messages=[stored.said("user", "afterwards")])
            browser.wait_text("afterwards")
            assert browser.text("#main").count("meanwhile") == 1
    browser.console()


def test_a_session_that_is_deleted_while_it_is_shown(opened, call):
    call("Put", sessionId="short-lived", messages=[stored.said("user", "soon gone")])
    opened.go(place("session", "short-lived"))
    opened.click("button", "Live")
    call("DeleteSession", sessionId="short-lived")
    opened.wait_text("SESSION_NOT_FOUND")
    assert opened.one("button", "All sessions").is_enabled()
    opened.go(place("session", "short-lived", "context"))
    said(opened)


def test_two_tabs_undo_the_same_fact(opened, call):
    call("AddFact", sessionId=stored.TRIP, block="facts", text="Ada plays the oboe.")
    where = place("session", stored.TRIP, "memory")
    opened.go(where)
    fact = opened.one(".fact", "Ada plays the oboe.")
    change = call("GetBlock", sessionId=stored.TRIP, block="facts")["facts"]["facts"][-1]["change"]
    call("UndoBlockChange", sessionId=stored.TRIP, block="facts", change=change)
    undo = next(button for button in fact.find_elements("css selector", "button") if button.text == "Undo")
    undo.click()
    opened.settle()
    # Undone once, and the page shows it as it is.
    texts = [one["text"] for one in call("GetBlock", sessionId=stored.TRIP, block="facts")["facts"]["facts"]]
    assert "Ada plays the oboe." not in texts
    assert opened.all(".knowledge:not(.past) .fact-text")
    assert "Ada plays the oboe." not in [one.text for one in opened.all(".knowledge:not(.past) .fact-text")]


def test_a_write_only_once(opened, call):
    """A second click while the first is under way does nothing."""
    opened.go(place("session", "job-that-failed", "jobs"))
    before = len(call("ListJobs", sessionId="job-that-failed")["jobs"])
    opened.script("const one = [...document.querySelectorAll('button')].find((b) => b.innerText === 'Retry');"
                  "one.click(); one.click(); one.click();")
    opened.settle()
    assert len(call("ListJobs", sessionId="job-that-failed")["jobs"]) == before + 1


def test_an_export_can_be_imported_again(opened, call, server, tmp_path):
    opened.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    opened.go(place("subject", stored.BEN))
    opened.click("button", "Export conversations")
    opened.wait_text("Saved")
    (file,) = wait_for(lambda: list(tmp_path.glob("*.jsonl")))
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert lines[-1]["end"]["messages"] == sum("message" in line for line in lines) > 20
    with Server("sqlite::memory:", arguments=[LISTEN]) as other:
        done = subprocess.run([BINARY, "import", str(file), "--target", other.target],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        copied = stored.Storing(other.http)("GetAll", sessionId=stored.SUPPORT)["messages"]
    assert [one.get("text") for one in copied] == [
        one.get("text") for one in call("GetAll", sessionId=stored.SUPPORT)["messages"]]
