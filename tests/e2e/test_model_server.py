"""The model server of the tests does as it is told, so that they test what they say."""

from __future__ import annotations

import http.client
import json
import threading

import pytest

from support.model_server import ModelServer, hash_embed


def post(server: ModelServer, path: str, body: dict, read: int = -1) -> tuple[int, dict, bytes]:
    """Status, headers and the first `read` bytes of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request("POST", f"/v1{path}", json.dumps(body), {"Authorization": "Bearer k"})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read() if read < 0 else \
            answer.read(read)
    finally:
        connection.close()


def chat(server: ModelServer, text: str = "Hi there", read: int = -1) -> tuple[int, dict, bytes]:
    return post(server, "/chat/completions",
                {"model": "m", "messages": [{"role": "user", "content": text}]}, read)


def embed(server: ModelServer, *texts: str) -> list[list[float]]:
    answer = json.loads(post(server, "/embeddings", {"model": "m", "input": texts})[2])
    return [item["embedding"] for item in answer["data"]]


@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens"])
def test_no_tokens_are_refused_as_by_openai(key):
    with ModelServer(["one"]) as server:
        body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
        assert [post(server, "/chat/completions", {**body, key: limit})[0] for limit in (0, -1, 1, None)] \
            == [400, 400, 200, 200]


def test_replies_come_in_turn_and_requests_are_noted():
    with ModelServer(["one", "two words"]) as server:
        answers = [json.loads(chat(server)[2]) for _ in range(3)]
        assert [a["choices"][0]["message"]["content"] for a in answers] == \
            ["one", "two words", "one"]
        assert answers[1]["usage"] == {"prompt_tokens": 2, "completion_tokens": 2,
                                       "total_tokens": 4}
        server.set_replies(["new"])
        assert b'"new"' in chat(server)[2]
        assert [r.texts for r in server.requests] == [["Hi there"]] * 4
        assert server.requests[0].headers["authorization"] == "Bearer k"
        assert post(server, "/other", {})[0] == 404


def test_embeddings_are_those_of_the_golden_traces():
    assert hash_embed("") == hash_embed(" é") == [1.0] + [0.0] * 15
    # By the traces' generator.
    assert hash_embed("Tea, tea & COFFEE") == [1.0] + [0.0] * 7 + [2.0] + [0.0] * 6 + [1.0]
    with ModelServer() as server:
        assert embed(server, "a", "b") == [hash_embed("a"), hash_embed("b")]


@pytest.mark.parametrize("kind, details, status, body", [
    ("status", {}, 500, b"not now"),
    ("status", {"code": 429, "retry_after": "7"}, 429, b"not now"),
    ("redirect", {"to": "http://127.0.0.1:2/"}, 307, b""),
    ("half_json", {}, 200, b'"cont'),
    ("short_length", {}, 200, b'{"id": "ch'),
    ("empty_choices", {}, 200, b'"choices": []'),
])
def test_a_lie_is_told_as_often_as_asked_for(kind, details, status, body):
    with ModelServer(["honest"]) as server:
        server.lie(kind, 2, **details)
        for _ in range(2):
            code, headers, answer = chat(server)
            assert (code, body in answer) == (status, True)
            assert headers.get("Retry-After") == details.get("retry_after")
            assert headers.get("Location") == details.get("to")
        assert b"honest" in chat(server)[2]
        server.lie(kind, **details)
        server.be_honest()
        assert b"honest" in chat(server)[2]


def test_answers_may_be_cut_large_or_endless():
    with ModelServer() as server:
        server.lie("cut")
        with pytest.raises(http.client.IncompleteRead):
            chat(server)
        server.lie("large")
        _, headers, answer = chat(server, read=1_000_000)
        assert (headers["Content-Length"], len(answer)) == ("104857600", 1_000_000)
        server.lie("endless")
        assert len(chat(server, read=10_000_000)[2]) == 10_000_000
        assert len(server.requests) == 3


def test_embeddings_may_be_wrong():
    with ModelServer() as server:
        server.lie("wrong_dimensions")
        assert len(embed(server, "a")[0]) == 15
        server.lie("nan")
        assert b"NaN" in post(server, "/embeddings", {"model": "m", "input": ["a"]})[2]


def test_a_server_that_hangs_answers_when_it_is_back():
    answers = []
    with ModelServer(["late"]) as server:
        with server.hanging():
            thread = threading.Thread(target=lambda: answers.append(chat(server)))
            thread.start()
            server.wait_for_requests(1)
            assert not answers
        thread.join()
        assert b"late" in answers[0][2]


def test_closing_ends_what_is_late():
    server = ModelServer()
    server.lie("late")
    failed = []

    def ask() -> None:
        try:
            chat(server)
        except (http.client.HTTPException, OSError) as error:
            failed.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    server.wait_for_requests(1)
    server.close()
    thread.join()
    assert failed
