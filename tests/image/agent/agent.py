"""A small agent: puts a turn into its memory, gets the context back and says what came.

It goes on every PERIOD seconds until SIGTERM. MEMORYD_ADDRESS is where its memory is, SESSION the
session's name. Ends with 1 when what it gets is not what it put.
"""

import os
import signal
import sys
import threading
import uuid

from memoryd import Client, message


def main() -> int:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    session = os.environ.get("SESSION", "agent")
    period = float(os.environ.get("PERIOD", "5"))
    with Client(os.environ.get("MEMORYD_ADDRESS", "127.0.0.1:50051"), timeout=30) as memory:
        while not stop.is_set():
            name = uuid.uuid4().hex[:8]
            put = [message("user", f"question {name}"), message("assistant", f"answer {name}")]
            # First a Put, which the client repeats: the sidecar may be a moment behind.
            revision = memory.put(session, put).revision
            got = [m.text for m in memory.get(session).messages]
            if got[-2:] != [m.text for m in put]:
                print(f"agent: turn {revision} did not come back: {got[-2:]}", file=sys.stderr)
                return 1
            print(f"agent: turn {revision} came back, of {len(got)} messages")
            stop.wait(period)
    return 0


if __name__ == "__main__":
    sys.exit(main())
