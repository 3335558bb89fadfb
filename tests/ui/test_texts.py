"""Texts that would run as code, in every place of text that the inspector has: none runs."""

from __future__ import annotations

import base64
import json

import pytest

import stored
from browser import WIDE, Browser, folded_open, place
from payloads import PAYLOADS
from support import paths  # noqa: F401  (makes memoryd importable)
from support.blocks import models_file
from support.http import LISTEN
from support.model_server import ModelServer
from support.server import Server

import memoryd

# Elements that the page makes; code of a text would bring others.
KNOWN = (
    "a", "article", "audio", "b", "bdi", "blockquote", "body", "br", "button", "caption", "code", "dd",
    "details", "dialog", "div", "dl", "dt", "figcaption", "figure", "footer", "form", "h1", "h2", "h3",
    "head", "header", "html", "img", "input", "label", "li", "link", "main", "meta", "nav", "noscript", "ol",
    "p", "path", "pre", "s", "script", "section", "small", "span", "summary", "svg", "table", "tbody", "td",
    "textarea", "th", "thead", "time", "title", "tr", "ul", "video")
STRANGE = """
const known = new Set(arguments[0]);
return [...document.querySelectorAll("*")].filter((one) => !known.has(one.localName)
  || [...one.attributes].some((attribute) => attribute.name.startsWith("on") || attribute.name === "srcdoc"
    || (["href", "src", "action", "formaction", "xlink:href"].includes(attribute.name)
      && !/^(#|blob:|icon\\.svg|main\\.js|style\\/)/.test(attribute.value)))
  || one.localName === "script" && one.getAttribute("src") !== "main.js"
  || one.hasAttribute("style") && /url|expression|@import/i.test(one.getAttribute("style")))
  .map((one) => one.outerHTML.slice(0, 200));
"""
SESSION, FACTS, ITEMS = "every-place", "known", ["notes"]
SUBJECT = "subject <img src=x onerror=window.ran('s')>"
# Models that fail with the texts as their words.
FAILING, WORKER = "failing", "<svg onload=window.ran('w')>"
# Of a fact a text has at most so many bytes, and of an id and a subject.
ID_BYTES = 256
AT_ONCE = 25  # Messages of a session: each has many parts.


def message_of(text: str, number: int) -> dict:
    """A message with the text in all its places, as far as each may have it."""
    data = base64.b64encode(text.encode()).decode()
    svg = base64.b64encode(f"<svg xmlns='http://www.w3.org/2000/svg'>{text}</svg>".encode()).decode()
    page = base64.b64encode(f"<!doctype html><body>{text}</body>".encode()).decode()
    return {
        "messageId": clean(f"{number} {text}", 128) if is_id(text) else f"m{number}",
        "role": text[:16] if number % 5 == 0 and is_id(text) else "user",
        "name": clean(text) if is_id(text) else "",
        "metadataJson": json.dumps({text: text}), "threadId": clean(text, 128) if is_id(text) else "",
        "parts": [
            {"text": text}, {"json": json.dumps({text: [text]})},
            {"thinking": {"text": text, "signature": text}},
            {"toolCall": {"callId": text, "name": text, "argumentsJson": json.dumps({text: text})}},
            {"toolResult": {"callId": text, "name": text, "text": text, "isError": True}},
            {"toolResult": {"callId": text, "name": text, "text": json.dumps({text: text})}},
            {"citation": {"citedText": text, "source": text, "title": text,
                          "locationJson": json.dumps(text)}},
            {"opaque": {"type": clean(text, 64) if is_id(text) else "raw", "data": data}},
            {"image": {"data": svg, "mimeType": "image/svg+xml", "title": text}},
            {"image": {"data": data, "mimeType": "image/png", "title": text}},
            {"image": {"url": text, "path": text, "mimeType": text, "detail": text}},
            {"audio": {"data": data, "mimeType": "audio/wav", "format": text, "title": text}},
            {"video": {"data": data, "mimeType": "video/mp4", "title": text}},
            {"document": {"data": page, "mimeType": "text/html", "title": text, "path": text}},
        ]}


def is_id(text: str) -> bool:
    """Whether it may stand in an id: no control and no invisible characters."""
    return all(ord(character) >= 32 and character not in "\u202e\ufeff" for character in text)


def clean(text: str, most: int = ID_BYTES) -> str:
    """As much of it as an id of so many bytes has room for."""
    return text.encode()[:most].decode(errors="ignore")


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """A server whose every text is one of the payloads."""
    with ModelServer() as models:
        arguments = [models_file(tmp_path_factory.mktemp("models"), models), LISTEN, "--job-retry-ms=20",
                     "--job-attempts=1"]
        words = iter(PAYLOADS)
        with (Server("sqlite::memory:", arguments=arguments) as server,
              memoryd.Worker(server.target, name=WORKER, models={WORKER: lambda *_: _refuse(next(words))})):
            call = stored.Storing(server.http)
            _say(call)
            _know(call, models)
            _fail(call)
            _name(call)
            yield server


def _say(call: stored.Storing) -> None:
    for begin in range(0, len(PAYLOADS), AT_ONCE):
        call("CreateSession", sessionId=f"{SESSION}-{begin}", config={"tokenLimit": "1000000000"})
        call("Put", sessionId=f"{SESSION}-{begin}", messages=[
            message_of(text, begin + at) for at, text in enumerate(PAYLOADS[begin:begin + AT_ONCE])])
    call("CreateSession", sessionId="contents", config={"profile": "autogen-list"})
    call("Put", sessionId="contents", contents=[
        {"mimeType": clean(text, 128) if is_id(text) else "a/b", "metadataJson": json.dumps({text: text}),
         **({"text": text} if at % 3 == 0 else {"json": json.dumps(text)} if at % 3 == 1
            else {"bytesValue": base64.b64encode(text.encode()).decode()})}
        for at, text in enumerate(PAYLOADS)])


def _know(call: stored.Storing, models: ModelServer) -> None:
    call("CreateSession", sessionId=FACTS, config=stored.every_turn(SUBJECT, [
        stored.block("facts", "fact-extraction", model="chat", max_facts=250),
        stored.block("summary", "summary", model="chat"), stored.block("people", "entity", model="chat"),
        stored.block("earlier", "vector", embedder="embed"),
        stored.block("written", "static", content="\n".join(PAYLOADS[:60]))], chatHistoryTokenRatio=0.0))
    for text in PAYLOADS:
        if len(text.encode()) <= 1000 and any(character.isalnum() for character in text):
            call("AddFact", sessionId=FACTS, block="facts", text=f"{text} {len(text)}")
    entities = "".join(f"<entity name='{number} {text[:40]}'>{text}</entity>"
                       for number, text in enumerate(PAYLOADS[:80]) if "'" not in text[:40])
    models.set_replies([f"<entities>{entities}</entities>" + "\n".join(PAYLOADS)])
    for turn in range(2):
        call("Put", sessionId=FACTS, messages=[stored.said("user", f"<svg onload=window.ran('t{turn}')>"),
                                               stored.said("assistant", "yes")])
    stored.jobs_end(call, FACTS)


def _refuse(text: str) -> str:
    raise ValueError(text)


def _fail(call: stored.Storing) -> None:
    """A failed job for each text, which is its error."""
    call("CreateSession", sessionId=FAILING, config=stored.every_turn("b", [
        stored.block("facts", "fact-extraction", worker=WORKER, model=WORKER)], chatHistoryTokenRatio=0.0))
    for _ in range(len(PAYLOADS) + 1):  # The newest turn stays.
        call("Put", sessionId=FAILING, messages=[stored.said("user", "x"), stored.said("assistant", "y")])
    stored.jobs_end(call, FAILING)


def _name(call: stored.Storing) -> None:
    for number, text in enumerate(PAYLOADS):
        if not is_id(text):
            continue
        call("PutItem", namespace=ITEMS, put={"key": f"{clean(text)}", "json": json.dumps({text: text})})
        if number % 4 == 0:
            call("PutItem", namespace=["named", clean(text)], put={"key": "k", "json": json.dumps(text)})
            call("CreateSession", sessionId=clean(f"{number}{text}"), config={"subject": clean(text)})


@pytest.fixture(scope="module")
def opened(browser: Browser, attacked):
    browser.look(WIDE, "light")
    browser.open(attacked.http)
    yield browser


def check(opened: Browser, where: str) -> None:
    opened.go(where)
    folded_open(opened)
    innocent(opened, where)


def innocent(opened: Browser, where: str) -> None:
    assert opened.seen("ran") == [], where
    assert opened.seen("breaches") == [], where
    assert opened.script(STRANGE, KNOWN) == [], where
    assert opened.foreign_requests() == [], where
    assert "The page failed" not in opened.text("#main"), where


def test_the_list_is_long_enough():
    assert len(PAYLOADS) >= 200
    assert len(set(PAYLOADS)) == len(PAYLOADS)


def test_the_recorder_sees_code_that_runs(opened):
    """Else the tests below could not fail."""
    opened.script("const one = document.createElement('button'); one.onclick = () => window.ran('1');"
                  "document.body.append(one); one.click(); one.remove();")
    assert opened.seen("ran") == ["1"]
    opened.script("window.seen.ran.length = 0;")
    # The policy stops markup even where a page would make some.
    outcome = opened.script("""
      try { document.createElement("div").innerHTML = "<img src=x onerror=window.ran('2')>"; return "made"; }
      catch (error) { return error.name; }""")
    assert outcome == "TypeError"
    opened.script("window.seen.breaches.length = 0;")


def test_messages_run_nothing(opened):
    for begin in range(0, len(PAYLOADS), AT_ONCE):
        check(opened, place("session", f"{SESSION}-{begin}"))
        assert len(opened.all("article.message")) == len(PAYLOADS[begin:begin + AT_ONCE])
    for tab in ("context", "config", "activity"):
        check(opened, place("session", f"{SESSION}-0", tab))


@pytest.mark.parametrize("question", PAYLOADS[35:95:12])
def test_what_is_typed_and_found_runs_nothing(opened, question):
    check(opened, place("session", f"{SESSION}-0", "search", q=question))
    check(opened, place("session", f"{SESSION}-0", "context", question=question))
    check(opened, place("sessions", prefix=question, subject=question[:40]))
    check(opened, place("items", "notes", q=question))


@pytest.mark.parametrize("where", (
    place("session", "contents", "contents"), place("session", FACTS, "memory"),
    place("session", FACTS, "config"), place("session", FACTS, "context"), place("session", FACTS, "jobs"),
    place("session", FACTS, "activity"), place("session", FACTS),
    place("session", FACTS, "search", q="script"), place("session", FAILING, "activity"),
    place("session", FAILING, "memory"),
    place("sessions"), place("subjects"), place("subject", SUBJECT), place("items"), place("items", "named"),
    place("items", *ITEMS), place("usage"), place("server")))
def test_no_other_place_of_text_runs_anything(opened, where):
    check(opened, where)


def test_errors_of_models_run_nothing(opened):
    opened.go(place("session", FAILING, "jobs"))
    while opened.all(".job ~ *") and opened.has("Show more"):
        opened.click("button", "Show more")
    shown = "".join(opened.script("return document.getElementById('main').textContent").split())
    assert [text for text in PAYLOADS if "".join(text.split()) not in shown] == []
    check(opened, place("session", FAILING, "jobs", state="FAILED"))


def test_questions_before_a_write_run_nothing(opened):
    opened.go(place("subject", SUBJECT))
    opened.click("button", "Erase…")
    assert SUBJECT in opened.text("dialog")
    innocent(opened, "erase")
    opened.click("dialog button", "Cancel")
    opened.go(place("session", FACTS, "memory"))
    opened.click(".fact button", "Correct")
    innocent(opened, "correct")
    opened.click("dialog button", "Cancel")


def test_names_in_addresses_run_nothing(opened):
    for text in PAYLOADS[::9]:
        check(opened, place("session", clean(text)))
        check(opened, place("subject", clean(text)))
        check(opened, place("items", clean(text)))
        check(opened, place(text, text, text=text))
