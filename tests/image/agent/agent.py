"""A small agent: puts a turn into its memory, gets the context back and compares.

It goes on every PERIOD seconds until SIGTERM, with WRITERS sessions at once; without a pause between turns
it says what came of the first of each session alone. MEMORYD_TARGET is where its memory is, SESSION the
session's name; CA_FILE, where there is one, has whose word is taken for memoryd's certificate, and TOKEN_FILE
the token. Ends with 1 when a call fails, when what it gets is not what it put, or when a session does
not hold all of it at the end; the last line is `agent: N turns, errors 0, lost 0, longest N s`.
"""

import os
import pathlib
import signal
import sys
import threading
import time
import uuid

import grpc

from memoryd import Client, message

SESSION = os.environ.get("SESSION", "agent")
PERIOD = float(os.environ.get("PERIOD", "5"))
WRITERS = int(os.environ.get("WRITERS", "1"))
CA_FILE = os.environ.get("CA_FILE")
TOKEN_FILE = os.environ.get("TOKEN_FILE")
# Longer than a memoryd takes that ends and is started again.
CALL_SECONDS = 60


class Writer:
    """One session's turns, until `stop` is set."""

    def __init__(self, memory: Client, session: str, stop: threading.Event) -> None:
        self._memory = memory
        self._session = session
        self._stop = stop
        self.put: list[str] = []
        self.errors: list[str] = []
        self.lost = 0
        self.longest = 0.0

    def run(self) -> None:
        try:
            while not self._stop.is_set():
                self._turn()
                self._stop.wait(PERIOD)
            stored = {m.text for m in self._memory.get_all(self._session)}
            self.lost = sum(text not in stored for text in self.put)
        except Exception as error:  # Any: what the client shows is what counts.
            self.errors.append(f"{self._session}: {error!r}")
            self._stop.set()

    def _turn(self) -> None:
        name = uuid.uuid4().hex[:8]
        put = [message("user", f"question {name}"), message("assistant", f"answer {name}")]
        begin = time.monotonic()
        # First a Put, which the client repeats: the sidecar may be a moment behind.
        revision = self._memory.put(self._session, put).revision
        got = [m.text for m in self._memory.get(self._session).messages]
        self.longest = max(self.longest, time.monotonic() - begin)
        texts = [m.text for m in put]
        if got[-2:] != texts:
            raise RuntimeError(f"turn {revision} did not come back: {got[-2:]}")
        if PERIOD or not self.put:
            print(f"agent: turn {revision} came back, of {len(got)} messages")
        self.put += texts


def main() -> int:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    credentials = grpc.ssl_channel_credentials(pathlib.Path(CA_FILE).read_bytes()) if CA_FILE else None
    token = pathlib.Path(TOKEN_FILE).read_text(encoding="ascii") if TOKEN_FILE else None
    with Client(timeout=CALL_SECONDS, credentials=credentials, token=token) as memory:
        names = [SESSION] + [f"{SESSION}-{number}" for number in range(1, WRITERS)]
        writers = [Writer(memory, name, stop) for name in names]
        threads = [threading.Thread(target=writer.run) for writer in writers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    errors = [error for writer in writers for error in writer.errors]
    for error in errors:
        print(f"agent: {error}", file=sys.stderr)
    lost = sum(writer.lost for writer in writers)
    print(f"agent: {sum(len(writer.put) for writer in writers) // 2} turns, errors {len(errors)}, "
          f"lost {lost}, longest {max(writer.longest for writer in writers):.1f} s")
    return 1 if errors or lost else 0


if __name__ == "__main__":
    sys.exit(main())
