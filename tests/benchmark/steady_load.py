#!/usr/bin/env python3
"""Calls that arrive as a Poisson process, however slow the server is.

usage: steady_load.py TARGET put|get PREFIX SESSIONS RATE SECONDS

Sessions are PREFIX-NUMBER, in turn. Prints what memoryd_load prints, as far as it knows it; latency
counts from the arrival. For low rates and calls beside a model server in Python: hanging_model.py
runs it as a process of its own.
"""

import json
import pathlib
import random
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from support.calls import memory_service_pb2_grpc, user, wire
from support.server import open_channel, ready

TEXT = "what is the capital of France please book a table for two tomorrow evening my sister"


def main():
    target, method, prefix, sessions, rate, seconds = sys.argv[1:]
    sessions, rate, seconds = int(sessions), float(rate), float(seconds)
    chance = random.Random(1)
    latencies, errors = [], []
    with ready(open_channel(target)) as channel:
        stub = memory_service_pb2_grpc.MemoryServiceStub(channel)
        if method == "put":
            call, request, fields = stub.Put, wire.PutRequest, {"messages": [user(TEXT)]}
        else:
            call, request, fields = stub.Get, wire.GetRequest, {}
        pending = []
        begin = due = time.perf_counter()
        while True:
            due += chance.expovariate(rate)
            if due - begin > seconds:
                break
            threading.Event().wait(due - time.perf_counter())

            def ended(future, arrival=due):
                latencies.append(time.perf_counter() - arrival)
                if future.exception():
                    errors.append(str(future.exception()))

            session = f"{prefix}-{len(pending) % sessions}"
            future = call.future(request(session_id=session, **fields), timeout=30)
            future.add_done_callback(ended)
            pending.append(future)
        for future in pending:
            future.exception()
        while len(latencies) < len(pending):  # Callbacks come a moment later.
            threading.Event().wait(0.001)
    latencies.sort()
    print(json.dumps({
        "ops": len(latencies), "errors": len(errors), "first_error": errors[:1],
        **{f"p{name}_us": latencies[int(share * len(latencies))] * 1e6
           for name, share in (("50", 0.5), ("99", 0.99))},
    }))


if __name__ == "__main__":
    main()
