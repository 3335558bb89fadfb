"""A store with conversations as four frameworks have them, of which a page shows each view."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any

from support.http import HttpCaller
from support.model_server import ModelServer
from support.waiting import wait_for

# Sessions, and whom they are about.
TRIP = "langgraph-trip-lisbon"
SUPPORT = "openai-agents-ticket-4711"
RESEARCH = "autogen-research"
SHOP = "adk-shop-cart"
RTL = "rtl-and-emoji"
ADA, BEN = "ada@example.org", "ben@example.org"

FACTS = ('<facts><fact evidence="1">Ada lives in Lisbon.</fact>'
         '<fact evidence="1">Ada is allergic to peanuts.</fact>'
         '<fact evidence="1">Ada travels with a dog called Bella.</fact></facts>')
PEOPLE = ('<entities><entity name="Bella" evidence="1">Ada\'s dog, who travels along.</entity>'
          '<entity name="Porto" evidence="1">Where Ada wants to go, by train.</entity></entities>')


class Failing(Exception):
    """A call that was to be answered OK was not."""


class Storing:
    """Calls that must succeed."""

    def __init__(self, address: str, token: str | None = None) -> None:
        self.address = address
        self._caller = HttpCaller(address, token)

    def __call__(self, method: str, **fields: Any) -> dict[str, Any]:
        status, reply = self._caller(method, **fields)
        if status != 200:
            raise Failing(method, reply)
        return reply


def png(width: int = 96, height: int = 64) -> bytes:
    """A picture of a gradient."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (struct.pack(">I", len(data)) + kind + data
                + struct.pack(">I", zlib.crc32(kind + data)))
    rows = b"".join(b"\0" + bytes(v for x in range(width) for v in (20 + 2 * x, 90 + y, 150 - x))
                    for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def block(name: str, kind: str, **options: Any) -> dict[str, Any]:
    content = options.pop("content", None)
    made: dict[str, Any] = {"name": name, "kind": kind, "priority": options.pop("priority", 0),
                            "worker": options.pop("worker", "")}
    if options:
        made["optionsJson"] = json.dumps(options)
    if content:
        made["content"] = [{"text": content}]
    return made


def said(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "text": text, **more}


def tool_turn(call_id: str, name: str, arguments: dict[str, Any], result: str,
              is_error: bool = False) -> list[dict[str, Any]]:
    return [
        {"role": "assistant", "parts": [{"toolCall": {
            "callId": call_id, "name": name, "argumentsJson": json.dumps(arguments)}}]},
        {"role": "tool", "parts": [{"toolResult": {
            "callId": call_id, "name": name, "text": result, "isError": is_error}}]},
    ]


def fill(call: Storing, models: ModelServer) -> None:
    """Stores everything; the server has the models `chat` and `embed` of `models`."""
    _trip(call, models)
    _support(call)
    _research(call)
    _shop(call)
    _odd(call)
    _failed(call, models)
    _items(call)


def jobs_end(call: Storing, session_id: str) -> None:
    wait_for(lambda: all(job["state"] != "JOB_STATE_OPEN"
                         for job in call("ListJobs", sessionId=session_id).get("jobs", ())))


def every_turn(subject: str, blocks: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"subject": subject, "blocks": list(blocks), "tokenLimit": "400", "tokenFlushSize": "1",
            "chatHistoryTokenRatio": 0.3, **more}


def _trip(call: Storing, models: ModelServer) -> None:
    blocks = [block("persona", "static", content="You plan trips. Be brief, and ask before you book."),
              block("facts", "fact-extraction", priority=2, model="chat"),
              block("summary", "summary", priority=1, model="chat"),
              block("people", "entity", priority=3, model="chat"),
              block("earlier", "vector", priority=4, embedder="embed")]
    call("CreateSession", sessionId=TRIP, config=every_turn(ADA, blocks))
    models.set_replies([FACTS + PEOPLE])
    weather = json.dumps({"city": "Lisbon", "days": [{"day": "Sat", "sky": "sunny", "high": 19},
                                                     {"day": "Sun", "sky": "showers", "high": 16}]})
    call("Put", sessionId=TRIP, messages=[
        said("system", "You are a travel agent. Today is 29 November 2026."),
        said("user", "Hi! I live in Lisbon and travel with my dog Bella. I am allergic to peanuts.",
             name="Ada"),
        said("assistant", "Noted. Where would you like to go?")])
    call("Put", sessionId=TRIP, messages=[
        said("user", "How is the weather here this weekend?", name="Ada"),
        *tool_turn("call_1", "get_weather", {"city": "Lisbon", "days": 2}, weather),
        said("assistant", "Sunny on Saturday, 19 degrees; showers on Sunday.")])
    call("Put", sessionId=TRIP, messages=[
        said("user", "Then Porto on Saturday, by train. Bella has to come along.", name="Ada"),
        *tool_turn("call_2", "search_trains", {"from": "Lisboa Oriente", "to": "Porto Campanhã",
                                               "pets": True},
                   "TimeoutError: no answer from cp.pt after 10 s", is_error=True),
        {"role": "assistant", "parts": [
            {"thinking": {"text": "The tool failed. I know the timetable: hourly trains, 3 h."}},
            {"text": "The timetable does not answer just now. There is a train each hour, 3 hours; "
                     "small dogs travel free in a carrier."}]}])
    jobs_end(call, TRIP)
    models.set_replies(["Ada, who lives in Lisbon and has a dog called Bella, plans a day in Porto."])
    call("Put", sessionId=TRIP, messages=[
        {"role": "user", "name": "Ada", "parts": [
            {"text": "This is the hotel I like. Do they take dogs?"},
            {"image": {"data": base64.b64encode(png()).decode(), "mimeType": "image/png",
                       "title": "The hotel's front"}}]},
        said("assistant", "They do: one dog up to 10 kg. Shall I book Saturday to Sunday?")])
    jobs_end(call, TRIP)
    call("AddFact", sessionId=TRIP, block="facts", text="Ada prefers trains to planes.")
    call("Put", sessionId=TRIP, messages=[said("user", "Yes, book it.", name="Ada",
                                               expireTime="2030-01-01T00:00:00Z")])


def _support(call: Storing) -> None:
    call("CreateSession", sessionId=SUPPORT, config={"subject": BEN})
    order = {"order": 4711, "status": "shipped", "items": [{"sku": "A-1", "count": 2}]}
    call("Put", sessionId=SUPPORT, messages=[
        said("developer", "You answer customers of a shop."),
        said("user", "Where is my order 4711?", metadataJson=json.dumps({"channel": "web"})),
        *tool_turn("fc_1", "lookup_order", {"order": 4711}, json.dumps(order)),
        said("assistant", "It was shipped yesterday, and should arrive on Monday."),
        said("user", "The web page says it was lost?", untrusted=True),
        said("assistant", "I see no such note. I will ask the carrier.")])


def _research(call: Storing) -> None:
    call("CreateSession", sessionId=RESEARCH, config={"profile": "autogen-list"})
    call("Put", sessionId=RESEARCH, contents=[
        {"contentId": "style", "mimeType": "text/plain", "text": "Answer in metric units."},
        {"contentId": "menu", "mimeType": "application/json",
         "json": '{"soup": "leek", "price": 4.5}', "metadataJson": '{"source": "kitchen"}'}])


def _shop(call: Storing) -> None:
    call("CreateSession", sessionId=SHOP, config={
        "subject": BEN, "tokenLimit": "200", "tokenFlushSize": "1", "chatHistoryTokenRatio": 0.5})
    for day in range(12):
        call("Put", sessionId=SHOP, messages=[
            said("user", f"Put {day + 1} kilos of apples into my cart.",
                 createTime=f"2026-11-{day + 10:02}T09:30:00Z"),
            {"role": "model", "createTime": f"2026-11-{day + 10:02}T09:30:04Z", "parts": [
                {"text": "Done."}, {"json": json.dumps({"cart": {"apples": day + 1}})}]}])


def _odd(call: Storing) -> None:
    call("CreateSession", sessionId=RTL, config={"subject": "نور"})
    call("Put", sessionId=RTL, messages=[
        said("user", "مرحبا! أنا نور وأعيش في القاهرة.", name="نور"),
        said("assistant", "أهلاً يا نور! كيف يمكنني مساعدتك؟"),
        said("user", "שלום, וגם קצת עברית: 42 ק״מ. 👩‍👩‍👧‍👦 🇵🇹"),
        said("assistant", "日本語も少し。𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ﷽ Z̸̢̛a̷l̶g̸o̵ " + "wide " * 40)])


def _failed(call: Storing, models: ModelServer) -> None:
    session_id = "job-that-failed"
    call("CreateSession", sessionId=session_id, config=every_turn(
        BEN, [block("facts", "fact-extraction", model="chat")], chatHistoryTokenRatio=0.0))
    models.lie("status", times=100, code=500, retry_after=None)
    for text in ("I moved to Berlin.", "My name is Ben.", "I like tea."):
        call("Put", sessionId=session_id, messages=[said("user", text), said("assistant", "I see.")])
    jobs_end(call, session_id)
    models.be_honest()
    models.set_replies(["<facts><fact>Ben lives in Berlin.</fact></facts>"])


def _items(call: Storing) -> None:
    for user, city in ((ADA, "Lisbon"), (BEN, "Berlin")):
        call("PutItem", namespace=["users", user, "memories"], config={"subject": user},
             put={"key": "home", "json": json.dumps({"city": city, "since": 2019})})
    call("PutItem", namespace=["users", ADA, "memories"],
         put={"key": "diet", "json": json.dumps({"allergies": ["peanuts"]})})
    call("PutItem", namespace=["files"], put={
        "key": "/memories/notes.md", "bytesValue": base64.b64encode("# Notes\n- Ünïcode".encode()).decode(),
        "mimeType": "text/markdown"})
    call("PutItem", namespace=["files"], put={
        "key": "picture.png", "bytesValue": base64.b64encode(png(32, 32)).decode(), "mimeType": "image/png"})
