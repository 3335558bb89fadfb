"""Clients in networks with proxies, and with middleboxes that forget connections."""

import os
import pathlib
import socket
import subprocess
import sys
import threading

import memoryd
import pytest

SOURCE = str(pathlib.Path(memoryd.__file__).parents[1])
_PUT = """
import sys
from memoryd import Client, message
with Client(sys.argv[1], timeout=5) as client:
    client.put(sys.argv[2], [message("user", "x")])
"""


class Forgetful:
    """A way to a server that can lose what its connections of now carry, in silence."""

    def __init__(self, target: str) -> None:
        host, port = target.rsplit(":", 1)
        self._server = (host, int(port))
        self._age = 0
        self._box = socket.create_server(("127.0.0.1", 0))
        self.target = f"127.0.0.1:{self._box.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def forget(self) -> None:
        self._age += 1

    def close(self) -> None:
        self._box.close()

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self._box.accept()
            except OSError:
                return
            other = socket.create_connection(self._server)
            for pair in ((one, other), (other, one)):
                threading.Thread(
                    target=self._pump, args=(*pair, self._age), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, age: int) -> None:
        try:
            while data := source.recv(65536):
                if age == self._age:
                    sink.sendall(data)
        except OSError:
            pass


@pytest.mark.parametrize("variable", ["http_proxy", "https_proxy", "grpc_proxy"])
def test_no_proxy_of_the_environment_is_asked(server, session_id, variable):
    environment = {**os.environ, "PYTHONPATH": SOURCE, variable: "http://127.0.0.1:9",
                   "no_proxy": ""}
    subprocess.run([sys.executable, "-c", _PUT, server.target, session_id], env=environment,
                   check=True, timeout=60)


def test_a_forgotten_connection_is_replaced_within_a_default_timeout(server, session_id):
    way = Forgetful(server.target)
    try:
        with memoryd.Client(way.target) as client:
            client.put(session_id, [memoryd.message("user", "before")])
            way.forget()
            client.put(session_id, [memoryd.message("user", "after")])
            assert client.count_messages(session_id) == 2
    finally:
        way.close()
