"""What the server refuses: the code, the field in the message, and nothing stored."""

from __future__ import annotations

import random

import grpc
import pytest
from google.protobuf import duration_pb2, timestamp_pb2

from support.access import Caller
from support.calls import memory, note, reason, refusal, user, wire
from support.swelling import SWELLING, Swelling

INVALID = grpc.StatusCode.INVALID_ARGUMENT
MIB = 1024 * 1024
HIDDEN = "\u200b\u200d\ufeff\u200e\u202e\u2066"  # Zero-width and bidirectional-format characters.

Message, Part, Config = memory.Message, memory.Part, memory.SessionConfig


def ids(field: str, most: int) -> list:
    """Bad values of an identifier that is optional but not empty when given."""
    values = ["x" * (most + 1), "é" * (most // 2) + "x", "a\0b", "a\nb", "a\x7f", "a\x85"]
    return [(field, value) for value in values + [f"a{hidden}b" for hidden in HIDDEN]]


def metadata(value: str) -> list[Message]:
    return [user("x", metadata_json=value)]


def created(**fields) -> list[Message]:
    return [user("x", create_time=timestamp_pb2.Timestamp(**fields))]


# Messages that neither Put nor Set takes: the field at fault, then the messages.
BAD_MESSAGES = [
    ("messages", [user("x")] * 1001),
    ("messages[499].role", [user("x")] * 499 + [Message(text="x")] + [user("x")] * 100),
    ("messages[0].role", [Message(role="", text="x")]),
    ("messages[0].role", [Message(role="r" * 65, text="x")]),
    ("messages[0].text", [user("x" * (MIB + 1))]),
    ("messages[0].parts[1].text", [Message(role="user", parts=[Part(text="x" * n) for n in
                                                               (1, MIB + 1)])]),
    ("messages[0]", [user("x", parts=[Part(text="y")])]),
    ("messages[0].parts", [Message(role="user", parts=[Part(text="x")] * 1001)]),
    ("messages[0].parts[0]", [Message(role="user", parts=[Part()])]),
    ("messages[0].parts[0].opaque.type", [Message(role="user", parts=[Part(opaque={})])]),
    ("messages[0].parts[0].image.token_count",
     [Message(role="user", parts=[Part(image={"token_count": -1})])]),
    ("messages[0].name", [user("x", name="n" * 257)]),
    ("messages[1].message_id", [user("x", message_id="m"), user("y", message_id="m")]),
    *((f"messages[0].{field}", [user("x", **{field: value})]) for field, value in
      ids("message_id", 128) + ids("thread_id", 128)),
    *(("messages[0].metadata_json", metadata(value)) for value in (
        "{", "[]", "1", "null", '"x"', "{} {}", "{'a': 1}", '{"a": NaN}', '{"a": Infinity}',
        '{"a": 1e400}', '{"a": 1, "a": 2}', '{"a": "\\ud800"}', '{"a": "\\u0000"}',
        '{"\\u0000": 1}', '{"a": 01}', '{"a": 1,}', '{"a": "\n"}',
        '{"a": ' * 65 + "1" + "}" * 65,
        '{"a": ' + "[" * 100000 + "]" * 100000 + "}",
        "{" + ", ".join(f'"{i}": 1' for i in range(10001)) + "}",
        '{"' + "k" * 65536 + '": 1}',
        '{"a": "' + "x" * (256 * 1024) + '"}',
    )),
    *(("messages[0].create_time", created(**fields)) for fields in (
        {"seconds": -62135596801}, {"seconds": 253402300800}, {"nanos": -1},
        {"nanos": 1_000_000_000}, {"seconds": 2**63 - 1},
    )),
]
BAD_CONFIGS = [
    ("config.profile", Config(profile="nobody")),
    ("config.token_limit", Config(token_limit=0)),
    ("config.token_limit", Config(token_limit=-5)),
    ("config.token_limit", Config(token_limit=2**31)),
    ("config.chat_history_token_ratio", Config(chat_history_token_ratio=-0.1)),
    ("config.chat_history_token_ratio", Config(chat_history_token_ratio=1.1)),
    ("config.chat_history_token_ratio", Config(chat_history_token_ratio=float("nan"))),
    ("config.tokenizer", Config(tokenizer="morse")),
    ("config.policy", Config(policy="lifo")),
    ("config.insert_method", Config(insert_method=99)),
    ("config.feed", Config(feed=99)),
    ("config.image_token_count", Config(image_token_count=-1)),
    ("config.audio_token_count", Config(audio_token_count=-1)),
    ("config.video_token_count", Config(video_token_count=-1)),
    ("config.document_token_count", Config(document_token_count=-1)),
]
CHANGES = ("Put", "Set", "Reset", "CreateSession", "UpdateSession", "DeleteSession")
READS = ("Get", "GetAll", "Query", "UpdateContext")
CONDITIONAL = tuple(name for name in CHANGES if name != "CreateSession")

# One row a refusal: RPC, field, further fields of the request.
TABLE = [
    *((rpc, field, {"messages": messages}) for field, messages in BAD_MESSAGES
      for rpc in ("Put", "Set")),
    *((rpc, field, {"config": config, **({"messages": [user("x")]} if rpc == "Put" else {})})
      for field, config in BAD_CONFIGS for rpc in ("Put", "CreateSession")),
    *((rpc, "request_id", {"request_id": value}) for rpc in CHANGES
      for _, value in [("", ""), *ids("request_id", 128)]),
    *((rpc, "expected_revision", {"expected_revision": -1}) for rpc in CONDITIONAL),
    ("Put", "wait", {"wait": duration_pb2.Duration(seconds=-1)}),
    ("Get", "input", {"input": "x" * (MIB + 1)}),
    *(("GetAll", "page_size", {"page_size": size}) for size in (-1, -(2**31))),
    ("GetAll", "status", {"status": 99}),
    ("GetAll", "order", {"order": 3}),
    ("Reset", "scope", {"scope": 99}),
    *(("GetAll", "page_token", {"page_token": token}) for token in ("x", "AAAA", "é" * 500)),
]


def name(row) -> str:
    rpc, field, fields = row
    return f"{rpc}-{field}-{next(iter(fields))}"


@pytest.mark.parametrize("row", TABLE, ids=name)
def test_refuses_names_the_field_and_stores_nothing(calls, session_id, row):
    rpc, field, fields = row
    error = refusal(getattr(calls, rpc), session_id=session_id, **fields)
    assert error.code() == INVALID, error.details()
    assert field in error.details()
    assert reason(error)
    assert len(error.details()) < 1000
    missing = refusal(calls.GetSession, session_id=session_id)
    assert missing.code() == grpc.StatusCode.NOT_FOUND
    calls.Put(session_id=session_id, messages=[user("good")])


BLOCKS = (
    ("config.blocks[0].kind", [{"name": "b", "kind": "graph"}]),
    ("config.blocks[0].name", [{"name": "b c", "kind": "static"}]),
    ("config.blocks[1].name", [{"name": "b", "kind": "static"}] * 2),
    ("config.blocks[0].priority", [{"name": "b", "kind": "static", "priority": -1}]),
    ("config.blocks[0].worker", [{"name": "b", "kind": "worker"}]),
    ("config.blocks[0].options_json", [{"name": "b", "kind": "static", "options_json": "[]"}]),
    ("config.blocks[0].options_json",
     [{"name": "b", "kind": "static", "options_json": '{"colour": 1}'}]),
    ("config.blocks[0].options_json", [{"name": "b", "kind": "vector", "options_json": "{}"}]),
    ("config.blocks[0].content",
     [{"name": "b", "kind": "vector", "options_json": '{"embedder": "e"}', "content": [{}]}]),
    ("config.blocks", [{"name": f"b{i}", "kind": "static"} for i in range(33)]),
)


@pytest.mark.parametrize("rpc", ("Put", "CreateSession", "UpdateSession"))
@pytest.mark.parametrize("field, blocks", BLOCKS)
def test_a_block_that_cannot_be_made_is_refused(calls, session_id, rpc, field, blocks):
    config = Config(blocks=[memory.Block(**block) for block in blocks])
    if rpc == "UpdateSession":
        calls.CreateSession(session_id=session_id)
    error = refusal(getattr(calls, rpc), session_id=session_id, config=config)
    assert error.code() == INVALID, error.details()
    assert field in error.details()
    if rpc == "UpdateSession":
        assert not calls.GetSession(session_id=session_id).session.config.blocks
    else:
        assert refusal(calls.GetSession, session_id=session_id).code() == grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("rpc", (*CHANGES, *READS, "GetSession"))
@pytest.mark.parametrize("value", ["", *(value for _, value in ids("session_id", 256))])
def test_refuses_a_bad_session_id(calls, rpc, value):
    error = refusal(getattr(calls, rpc), session_id=value)
    assert error.code() == INVALID
    assert "session_id" in error.details()


@pytest.mark.parametrize("size", (-1, -(2**31)))
def test_refuses_a_negative_page_of_sessions(calls, size):
    error = refusal(calls.ListSessions, page_size=size)
    assert error.code() == INVALID
    assert "page_size" in error.details()


@pytest.mark.parametrize("value", (
    "'; DROP TABLE memoryd_messages;--", "../../etc/passwd", "%00", "..\\\\", "a b", "\u00e9",
    "e\u0301", "CASE", "case", "x" * 256, "é" * 128, "😀", "_", "%", "/", "*", "\U0010ffff",
))
def test_takes_any_other_session_id_bytewise(calls, value):
    calls.DeleteSession(session_id=value)
    calls.Put(session_id=value, messages=[user(value)])
    assert [m.text for m in calls.all_messages(value)] == [value]
    calls.DeleteSession(session_id=value)


def test_keeps_sessions_apart_that_differ_in_case_or_normal_form(calls, session_id):
    spellings = [session_id + tail for tail in ("é", "e\u0301", "A", "a", "_", "%")]
    for spelling in spellings:
        calls.Put(session_id=spelling, messages=[user(spelling)])
    for spelling in spellings:
        assert [m.text for m in calls.all_messages(spelling)] == [spelling]


@pytest.mark.parametrize("text", (
    "", "abc\0def", "\0", "\U0010ffff\ufffe\uffff\ufdd0", "\u0301", "a\u202eb\u200b", "😀👍🏽",
    "x" * MIB, "\\x00 %s ' \" ; --", "\r\n\t",
), ids=lambda text: ascii(text[:12]))
def test_keeps_any_text_byte_for_byte(calls, session_id, text):
    calls.Put(session_id=session_id, messages=[user(text)])
    assert [m.text for m in calls.all_messages(session_id)] == [text]
    assert [m.text for m in calls.Get(session_id=session_id).messages] == [text]


def random_text(chance: random.Random) -> str:
    """Up to 60 code points of all lengths in UTF-8, as likely as one another."""
    ranges = ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF))
    return "".join(chr(chance.randint(*chance.choice(ranges)))
                   for _ in range(chance.randint(0, 60)))


def test_keeps_ten_thousand_random_texts_byte_for_byte(calls, session_id):
    chance = random.Random(14)
    texts = [random_text(chance) for _ in range(10_000)]
    for begin in range(0, len(texts), 1000):
        calls.Put(session_id=session_id,
                  messages=[user(text) for text in texts[begin:begin + 1000]])
    assert [m.text for m in calls.all_messages(session_id)] == texts


def test_takes_what_lies_exactly_on_the_limits(calls, session_id):
    messages = [
        user("x", metadata_json='{"a": ' * 64 + "1" + "}" * 64),
        user("x", message_id="m" * 128, thread_id="t" * 128, name="n" * 256),
        Message(role="r" * 64, parts=[Part(text="x")] * 1000),
        Message(role="user"),
    ]
    calls.Put(session_id=session_id, messages=messages, request_id="r" * 128)
    calls.Put(session_id=session_id, messages=[user("x")] * 1000)
    found = calls.all_messages(session_id)
    assert len(found) == 1004
    assert found[0].metadata_json == messages[0].metadata_json
    assert list(found[2].parts) == list(messages[2].parts)
    assert not found[3].HasField("text") and not found[3].parts


@pytest.mark.parametrize("rpc", ("Put", "Set"))
def test_refuses_a_request_over_36_mebibytes(calls, session_id, rpc):
    error = refusal(getattr(calls, rpc), session_id=session_id, messages=[user("x" * MIB)] * 37)
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refusal(calls.GetSession, session_id=session_id).code() == grpc.StatusCode.NOT_FOUND


def test_the_llama_index_profile_narrows_roles(calls, session_id):
    calls.CreateSession(session_id=session_id, config=Config(profile="llama-index"))
    roles = ("system", "developer", "user", "assistant", "function", "tool", "chatbot", "model")
    calls.Put(session_id=session_id, messages=[Message(role=role, text="x") for role in roles])
    error = refusal(calls.Put, session_id=session_id,
                    messages=[user("x"), Message(role="poet", text="x")])
    assert error.code() == INVALID
    assert "messages[1].role" in error.details()
    assert len(calls.all_messages(session_id)) == len(roles)


def test_the_caller_tokenizer_needs_every_token_count(calls, session_id):
    calls.CreateSession(session_id=session_id, config=Config(tokenizer="caller"))
    for bad in (user("y"), user("y", token_count=-1)):
        for call in (calls.Put, calls.Set):
            error = refusal(call, session_id=session_id, messages=[user("x", token_count=3), bad])
            assert error.code() == INVALID
            assert "messages[1].token_count" in error.details()
    assert calls.all_messages(session_id) == []
    calls.Put(session_id=session_id, messages=[user("x", token_count=3)])
    assert calls.all_messages(session_id)[0].token_count == 3


def test_refuses_a_message_id_that_is_stored(calls, session_id):
    calls.Put(session_id=session_id, messages=[user("x", message_id="m")])
    error = refusal(calls.Put, session_id=session_id,
                    messages=[user("y"), user("z", message_id="m")])
    assert error.code() == grpc.StatusCode.ALREADY_EXISTS
    assert reason(error) == "MESSAGE_ID_EXISTS"
    assert [m.text for m in calls.all_messages(session_id)] == ["x"]
    calls.Set(session_id=session_id, messages=[user("new", message_id="m")])
    assert [m.text for m in calls.all_messages(session_id)] == ["new"]


def test_a_reply_names_the_stored_message_ids(calls, session_id):
    given = calls.Put(session_id=session_id, messages=[user("x")]).message_ids[0]
    assert calls.all_messages(session_id)[0].message_id == given


def test_ignores_fields_it_does_not_know(calls, session_id):
    request = wire.PutRequest(session_id=session_id, messages=[user("x")])
    unknown = wire.PutRequest.FromString(request.SerializeToString() + b"\xfa\x7f\x01z")
    calls.Put(unknown)
    assert [m.text for m in calls.all_messages(session_id)] == ["x"]


def test_fields_it_does_not_know_make_no_other_request(calls, session_id):
    """Wherever a newer client has put them, so that its repetition by an older one is a repetition."""
    message = memory.Message(role="user", parts=[memory.Part(text="x")])
    request = wire.PutRequest(
        session_id=session_id, request_id="r", messages=[message], contents=[note("y")],
        config=memory.SessionConfig(blocks=[memory.Block(name="b", kind="static")]))
    first = calls.Put(request)
    for part in (request, request.config, request.config.blocks[0], request.messages[0],
                 request.messages[0].parts[0], request.contents[0]):
        part.MergeFromString(b"\xfa\x7f\x01z")
        again = calls.Put(request)
        assert (again.revision, again.replayed) == (first.revision, True)


@pytest.mark.parametrize("payload", (
    b"\xff\xff\xff\xff",
    b"\x0a\x05ab",  # A length of 5 before 2 bytes.
    b"\x9b\x06" * 101 + b"\x9c\x06" * 101,  # Unknown groups, nested.
    b"\x9b\x06" * 100000,
), ids=lambda payload: payload[:8].hex())
@pytest.mark.parametrize("rpc", ("Put", "Set", "Reset", *READS))
def test_refuses_malformed_bytes_and_serves_on(calls, session_id, rpc, payload):
    method = calls.channel.unary_unary(f"/memoryd.v1.MemoryService/{rpc}")
    assert refusal(method, payload, timeout=30).code() == INVALID
    calls.Put(session_id=session_id, messages=[user("good")])


@pytest.mark.parametrize("text", (b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80"),
                         ids=lambda text: text.hex())
def test_refuses_text_that_is_not_utf8(calls, session_id, text):
    good = user("x" * len(text))
    request = wire.PutRequest(session_id=session_id, messages=[user("first"), good])
    payload = request.SerializeToString().replace(b"x" * len(text), text)
    put = calls.channel.unary_unary("/memoryd.v1.MemoryService/Put")
    assert refusal(put, payload, timeout=30).code() == INVALID
    assert refusal(calls.GetSession, session_id=session_id).code() == grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("method", ("/memoryd.v1.MemoryService/Nothing", "/nobody/Put", "/"))
def test_an_unknown_method_is_unimplemented(calls, method):
    error = refusal(calls.channel.unary_unary(method), b"", timeout=30)
    assert error.code() == grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("request_", [pytest.param(each, id=f"{each.method}-{each.field}")
                                      for each in SWELLING])
def test_a_request_that_swells_is_refused_before_it_is_parsed(calls, request_: Swelling):
    """Parsed, each would take 100 to 500 MiB."""
    error = Caller(calls.channel).error(request_.method, request_)
    assert error is not None and error.code() == INVALID, error
    if request_.field:
        assert error.details().startswith(f"{request_.field}: "), error.details()
    else:
        assert "fields that the server does not know" in error.details()
