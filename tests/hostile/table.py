"""The catalogue: 98 hostile inputs, what is sent, what must come back, and how it is proven.

A row with a `limit` names what is not done as one might wish, and `contained` by what that stays
harmless; its steps prove the containment. Codes follow
docs and proto; where a row of old says something else, its text here says why.
"""

from __future__ import annotations

import dataclasses

import grpc

from hostile import access, exceptions, fields, floods, frames, models, stores
from hostile.fields import (
    CONTROLS,
    HIDDEN,
    MIB,
    Message,
    Step,
    keeps_bodies,
    refuses,
    refuses_body_bytes,
    refuses_ids,
    refuses_messages,
    refuses_metadata,
    takes_session_ids,
    together,
    user,
)
from support.stores import STORES

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
INVALID = grpc.StatusCode.INVALID_ARGUMENT
ALONE = STORES[:1]


@dataclasses.dataclass(frozen=True)
class Row:
    """One input. `stores` are those it is run on; one that brings servers of its own needs one."""

    number: int
    sent: str
    must: str
    step: Step
    stores: tuple[str, ...] = ALONE
    limit: str = ""
    contained: str = ""


TABLE = (
    Row(1, 'session id ""', "INVALID_ARGUMENT, field named",
        together(refuses_ids([""], ["session_id", "new_session_id"]),
                 refuses("subject", ("EraseSubject", {"subject": ""}))), STORES),
    Row(2, "session id of 257 bytes", "INVALID_ARGUMENT, field named",
        together(refuses_ids(["x" * 257, "é" * 128 + "x"],
                             ["session_id", "new_session_id", "subject"]),
                 refuses("config.subject", *(
                     (rpc, {"config": fields.Config(subject="x" * 257)})
                     for rpc in ("Put", "CreateSession", "UpdateSession")))), STORES),
    Row(3, "session id with NUL, LF, any other control", "INVALID_ARGUMENT, field named",
        refuses_ids((f"a{c}b" for c in CONTROLS), ["session_id", "new_session_id", "subject"]),
        STORES),
    Row(4, "session id '; DROP TABLE m;--", "OK, stored as is",
        takes_session_ids("'; DROP TABLE m;--", "'; DROP TABLE memoryd_messages;--", "$1", "\\'"),
        STORES),
    Row(5, r"session id ../../etc/passwd, %00, ..\\", "OK, opaque",
        takes_session_ids("../../etc/passwd", "%00", "..\\\\", "/", ".", "*", "%", "_", "a" * 64),
        STORES),
    Row(6, "ids that differ in normal form or case only", "sessions of their own",
        takes_session_ids("é", "e\u0301", "É", "a", "A", "\uff41", "ss", "ß"), STORES),
    Row(7, "ids with bidirectional or zero-width characters", "INVALID_ARGUMENT; in bodies OK",
        together(refuses_ids((f"a{c}b" for c in HIDDEN), ("session_id", "request_id")),
                 *(refuses_messages(f"messages[0].{field}", *([user("x", **{field: f"a{c}b"})]
                                                              for c in HIDDEN))
                   for field in ("message_id", "thread_id")),
                 keeps_bodies(*(f"a{c}b" for c in HIDDEN))), STORES),
    Row(8, "body with NUL", "OK, 7 of 7 bytes back",
        keeps_bodies("abc\0def", "\0", "\0\0a"), STORES),
    Row(9, "body FF FE, not UTF-8", "INVALID_ARGUMENT", refuses_body_bytes(b"\xff\xfe"), STORES),
    Row(10, "body C0 80, overlong", "INVALID_ARGUMENT", refuses_body_bytes(b"\xc0\x80"), STORES),
    Row(11, "body ED A0 80, a surrogate", "INVALID_ARGUMENT",
        refuses_body_bytes(b"\xed\xa0\x80"), STORES),
    Row(12, "body U+10FFFF, noncharacters, lone combining marks", "OK, equal bytes",
        keeps_bodies("\U0010ffff", "\ufffe\uffff\ufdd0", "\u0301", "\u0301\u0302" * 1000, "👍🏽",
                     "\u202eabc"), STORES),
    Row(13, "body empty, role set", "OK", keeps_bodies(""), STORES),
    Row(14, "a message that says nothing, not even its role", "INVALID_ARGUMENT, role named",
        refuses_messages("messages[0].role", [Message()]), STORES),
    Row(15, "body of 1 MiB exactly", "OK", keeps_bodies("x" * MIB), STORES),
    Row(16, "body of 1 MiB + 1", "INVALID_ARGUMENT",
        refuses_messages("messages[0].text", [user("x" * (MIB + 1))],
                         [user("é" * (MIB // 2) + "x")]), STORES),
    Row(17, "request over the limit", "RESOURCE_EXHAUSTED, field and setting named", fields.too_large_a_request, STORES),
    Row(18, "empty batch", "OK, 0 stored", fields.an_empty_batch, STORES),
    Row(19, "batch of 1,001", "INVALID_ARGUMENT",
        refuses_messages("messages", [user("x")] * 1001), STORES),
    Row(20, "batch whose 500th item is bad", "INVALID_ARGUMENT with index, 0 stored",
        refuses_messages("messages[499]",
                         [user("x")] * 499 + [Message(text="x")] + [user("x")] * 100), STORES),
    Row(21, "unknown role where roles are known, enum 99", "INVALID_ARGUMENT",
        fields.unknown_roles_and_enums, STORES),
    Row(22, "unknown protobuf fields", "OK, ignored and counted", fields.unknown_fields),
    Row(23, r"metadata JSON: NaN, 1e400, keys twice, lone \ud800, \u0000", "INVALID_ARGUMENT each",
        refuses_metadata('{"a": NaN}', '{"a": Infinity}', '{"a": 1e400}', '{"a": 1, "a": 2}',
                         r'{"a": "\ud800"}', r'{"\udc00": 1}', r'{"a": "\u0000"}', r'{"\u0000": 1}',
                         "{", "[]", '"x"', "{} {}", '{"a": 01}', '{"a": 1,}'), STORES),
    Row(24, "metadata JSON 65 deep", "INVALID_ARGUMENT",
        refuses_metadata('{"a": ' * 65 + "1" + "}" * 65, '{"a": ' + "[" * 64 + "]" * 64 + "}",
                         '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}"), STORES),
    Row(25, "metadata with 10,000 keys, or a key of 64 KiB", "INVALID_ARGUMENT",
        refuses_metadata("{" + ", ".join(f'"{i}": 1' for i in range(10_000)) + "}",
                         '{"' + "k" * 65536 + '": 1}'), STORES),
    Row(26, "page size 0, -1, the least and the largest", "the default, INVALID_ARGUMENT, capped",
        fields.page_sizes, STORES),
    # Too many of a page are capped, not refused, wherever there is a most.
    Row(27, "top_k 10^9, -1", "capped; INVALID_ARGUMENT",
        together(fields.odd_queries,
                 refuses("top_k", *(("Query", {"query": "tea", "top_k": top_k})
                                    for top_k in (-1, -(2**31))))), STORES),
    Row(28, "page token forged, cut, another tenant's", "INVALID_ARGUMENT, one text",
        fields.page_tokens),
    Row(29, "embedding of wrong dimension, NaN, infinite; an embedder's odd name or weight",
        "the job that asked for it fails, no request carries one; INVALID_ARGUMENT",
        together(fields.bad_embeddings, fields.embedder_settings,
                 fields.retention_settings)),
    # To have nothing to ask about is no error: as a text without a word, it finds nothing.
    Row(30, "query text empty, of 64 KiB + 1 or of 1 MiB", "OK, nothing found; INVALID_ARGUMENT",
        together(fields.odd_queries,
                 refuses("query", *(("Query", {"query": "x" * size})
                                    for size in (65536 + 1, MIB)))), STORES),
    # RFC 3339 ends with the year 9999, and google.protobuf.Timestamp with it.
    Row(31, "time in the year 0 or 10000, negative nanos; in 9999", "INVALID_ARGUMENT; OK",
        together(refuses_messages("messages[0].create_time", *fields.bad_times()),
                 fields.bad_expire_times, fields.times_of_the_last_year), STORES),
    Row(32, "request id of 0 bytes, 129 bytes, with controls", "INVALID_ARGUMENT",
        refuses_ids(["", "x" * 129, "é" * 64 + "x", *(f"a{c}b" for c in CONTROLS)],
                    ["request_id"]), STORES),
    Row(33, "one request id, two bodies", "ALREADY_EXISTS", fields.a_request_id_used_twice, STORES),
    Row(34, "Set with a stale revision", "ABORTED, the current one in the details",
        fields.a_stale_revision, STORES),
    Row(35, "Get of an unknown session", "OK, empty, at the cost of a foreign one",
        fields.unknown_and_foreign_sessions),
    Row(36, "protobuf FF FF FF FF", "INVALID_ARGUMENT",
        frames.bodies_are_invalid(b"\xff" * 4, b"\x0a\x05ab", b"\x0b")),
    Row(37, "protobuf nested 101 deep", "INVALID_ARGUMENT",
        frames.bodies_are_invalid(frames.GROUP * 101 + frames.END_GROUP * 101)),
    Row(38, "protobuf nested 100,000 deep", "INVALID_ARGUMENT, memory flat",
        frames.flat(frames.bodies_are_invalid(frames.GROUP * 100_000 + frames.END_GROUP * 100_000,
                                              frames.GROUP * 100_000))),
    Row(39, "length prefix of 4 GiB - 1 without a body", "RESOURCE_EXHAUSTED, memory flat",
        frames.flat(frames.raw_bodies(frames.EXHAUSTED, b"\0\xff\xff\xff\xff"))),
    Row(40, "length prefix of 5, body of 2", "INVALID_ARGUMENT",
        frames.raw_bodies(frames.INVALID, b"\0\0\0\0\5ab", b"\0\0", b"\0\0\0\0\1")),
    Row(41, "no message in a unary call", "INVALID_ARGUMENT",
        frames.raw_bodies(frames.INVALID, b"")),
    Row(42, "two messages in a unary call", "OK, exactly one write", frames.two_messages,
        limit="a call begins with its first message, before its end is known",
        contained="nothing of the second is parsed or stored"),
    Row(43, "compressed flag 7", "UNIMPLEMENTED, nothing stored", frames.compressed(7, 2, 255)),
    Row(44, "compressed flag without grpc-encoding", "UNIMPLEMENTED", frames.compressed(1)),
    Row(45, "grpc-encoding br with the flag", "UNIMPLEMENTED",
        frames.compressed(1, encoding="br")),
    Row(46, "gzip of garbage", "UNIMPLEMENTED: gzip is off", frames.gzip_garbage),
    Row(47, "gzip bomb of 512 MiB", "UNIMPLEMENTED, never inflated", frames.flat(frames.gzip_bomb)),
    Row(48, "unknown method, unknown service, empty path", "UNIMPLEMENTED", frames.unknown_methods),
    Row(49, "no :path, no :method, no :scheme, GET", "the stream is reset, 405 for a GET; the"
        " connection lives", frames.broken_headers),
    Row(50, "content-type application/json, or none", "HTTP status 415, nothing stored",
        frames.content_types),
    Row(51, "metadata of 9 KB, settings acknowledged", "RESOURCE_EXHAUSTED",
        frames.metadata_of_9_kb),
    Row(52, "metadata of 100 KB, settings not acknowledged", "RESOURCE_EXHAUSTED, nothing stored",
        frames.unheeding_metadata([(f"x-{number}", "a" * 20_000) for number in range(5)])),
    Row(53, "1,000 headers of one byte, settings not acknowledged",
        "RESOURCE_EXHAUSTED, nothing stored",
        frames.unheeding_metadata([(f"x-{number}", "v") for number in range(1000)])),
    Row(54, "odd bytes in header names and values", "OK, ignored, never echoed; no credential",
        frames.odd_header_bytes),
    Row(55, "-bin header that is not base64", "OK, ignored", frames.bad_base64),
    Row(56, "HPACK index bomb of 58 MB", "its connection ends, memory flat",
        frames.flat(frames.hpack_bomb)),
    Row(57, "CONTINUATION flood, settings not acknowledged", "ended; others are served",
        floods.held(floods.continuation_flood)),
    Row(58, "a header string of 3 GiB", "ended; others are served",
        floods.held(floods.huge_string)),
    Row(59, "te: x, :scheme x or grpclb_client_stats beside 9 KB", "RESOURCE_EXHAUSTED, lives",
        frames.headers_of_known_crashes),
    Row(60, "PING flood", "GOAWAY ENHANCE_YOUR_CALM", floods.pings),
    Row(61, "SETTINGS flood", "memory flat", frames.flat(floods.settings)),
    Row(62, "rapid reset, over 20 connections", "ended; others are served",
        floods.held(floods.rapid_reset, connections=20)),
    Row(63, "20,000 half-open streams", "refused, then ended; others are served",
        floods.too_many_streams),
    Row(64, "silent TCP, no preface", "closed at the handshake's timeout",
        floods.silent_connections),
    Row(65, "body at a byte a second, no deadline", "ended with the connection, which grows so old",
        floods.a_body_that_never_ends),
    Row(66, "grpc-timeout garbage or negative", "OK, within the server's own deadline",
        frames.odd_timeouts("abc", "", "-1S", "1", "S", "1x", "99999999999S", "0x1S", "\x00")),
    Row(67, "grpc-timeout 99999999H", "OK, within the server's own deadline",
        frames.capped_deadlines),
    Row(68, "grpc-timeout 0n", "DEADLINE_EXCEEDED, stored once or not at all",
        frames.no_time_left),
    Row(69, "cancel at each step of a Put", "CANCELLED; stored once or not at all",
        together(frames.cancelled_puts, frames.cancelled_puts_before_a_frozen_store)),
    Row(70, "handler that throws, bad_alloc",
        "INTERNAL with an id, UNAVAILABLE where it may be stored; the process lives",
        exceptions.thrown),
    Row(71, "no token", "UNAUTHENTICATED", access.no_token),
    Row(72, "token wrong, expired, twice, Basic, 64 KiB, with NUL; a JSON Web Token of alg none,"
        " of HS256 by the public key, for another audience", "UNAUTHENTICATED, one text",
        together(access.wrong_tokens, access.wrong_json_web_tokens),
        limit="a header of over 64 KiB is over the decoder's limit, which ends the connection",
        contained="before anything of the call is looked at"),
    Row(73, "good token, foreign tenant in the request", "its own tenant: no request names one",
        access.no_tenant_in_requests),
    Row(74, "client certificate of another CA, expired, for another tenant, revoked",
        "TLS failure, or UNAUTHENTICATED for a name that nobody knows", access.wrong_certificates,
        limit="no revocation lists are read",
        contained="a certificate's entry in the credentials file, gone within two seconds"),
    Row(75, "plaintext to the TLS port, TLS to the plain one, TLS 1.1", "closed, counted",
        access.wrong_protocols),
    Row(76, "certificate and token of different tenants", "PERMISSION_DENIED",
        access.two_tenants_at_once),
    Row(77, "reflection, channelz, health.Watch by an ordinary caller",
        "PERMISSION_DENIED, UNIMPLEMENTED; Watches are capped", access.what_is_for_operators,
        limit="health asks nobody, so that a kubelet needs no credential",
        contained="2 KiB a Watch, of a sixteenth of what callers without a tenant may hold"),
    Row(78, "health of an unknown service", "NOT_FOUND", access.an_unknown_health_service),
    Row(79, "tenant over its rate or its stored bytes", "RESOURCE_EXHAUSTED, with and without"
        " when to come again", together(access.over_the_rate, access.over_the_quota)),
    Row(80, "queue full, bytes that wait or memory at their limit",
        "RESOURCE_EXHAUSTED, nothing started",
        together(access.a_full_queue("--max-pending-calls=4", reason_label="queue_full",
                                     mebibytes=0),
                 access.a_full_queue(reason_label="bytes", mebibytes=3),
                 access.too_little_memory)),
    Row(81, "store down, 25006, 57P01", "UNAVAILABLE",
        together(stores.a_store_that_is_away,
                 stores.sqlstates(UNAVAILABLE, "25006", "57P01", "57P03", "08006", "53300"))),
    Row(82, "store full: 53100, 53200, 54xxx", "RESOURCE_EXHAUSTED, counted and logged",
        together(stores.sqlstates(EXHAUSTED, "53100", "53200", "54000", "54001"),
                 stores.logged_alarm("53100"))),
    Row(83, "bytes the store refuses: 22021, 22P05, 22P02", "INVALID_ARGUMENT, counted",
        stores.sqlstates(INVALID, "22021", "22P05", "22P02")),
    # Not ABORTED, which says that somebody else has changed the session and that the caller must
    # decide anew: here nothing was stored and the same call may be made again, as clients do.
    Row(84, "40001, 40P01 that do not go away", "UNAVAILABLE, nothing stored, counted",
        stores.sqlstates(UNAVAILABLE, "40001", "40P01")),
    Row(85, "row whose checksum fails", "DATA_LOSS, others served", stores.damaged_rows),
    Row(86, "schema newer than the binary", "refuses to start", stores.a_newer_schema),
    Row(87, "model: 500, 429, half JSON, 100 MB, endless, redirect, self-signed",
        "the job fails, Puts and Gets go on", together(models.lying_models,
                                                       models.a_self_signed_model)),
    Row(88, "model's answer: NUL, not UTF-8, 10^6 deep, wrong count of vectors",
        "discarded; the source untouched", models.unreadable_answers),
    Row(89, "body that gives instructions, fakes roles and results",
        "OK, stored; role and text unchanged", access.injected_instructions),
    Row(90, "role system, by a credential for other roles; who wrote and how far to trust it",
        "PERMISSION_DENIED; the server says who, trust is only lowered",
        together(access.roles_not_granted, access.provenance_is_the_servers)),
    Row(91, "settings: unknown key, bad number, secret anybody reads, 0.0.0.0 without TLS",
        "refuses to start, one line that names the key", access.refused_settings),
    Row(92, "CONTINUATION flood of fields of one byte", "ended; others are served",
        floods.held(floods.small_fields)),
    Row(93, "header blocks left half, on 500 connections", "ended after ten seconds; others are"
        " served", floods.held(floods.half_a_header_block, connections=500, most_mib=64.0)),
    Row(94, "PRIORITY flood", "ended; others are served", floods.held(floods.priorities)),
    Row(95, "calls sent ahead of answers that nobody reads", "no more is read; others are served",
        floods.held(floods.whole_calls)),
    Row(96, "the same by those who acknowledge settings", "no more is read; others are served",
        floods.held(floods.whole_calls, acknowledge=True)),
    Row(97, "frames that make the server reset streams", "ended; others are served",
        floods.held(floods.provoked_resets)),
    Row(98, "bodies of 4 MiB that stop a byte short, without a credential", "UNAUTHENTICATED by"
        " the headers; others are served", floods.held(floods.half_bodies, connections=3)),
)
