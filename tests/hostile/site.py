"""What every process of an attacked server's run knows: where the server is, and the phase."""

from __future__ import annotations

import dataclasses
import multiprocessing
import pathlib
from typing import Any

import grpc

from support.server import open_channel
from support.tls import secure_channel

# Attackers rest; are busy loops, the yardstick; attack; end.
RESTING, LOOPING, ATTACKING, ENDING = range(4)
EFFORTS = ("connections", "bytes", "calls", "refused")
# Processes start from nothing: gRPC does not outlive a fork.
SPAWN = multiprocessing.get_context("spawn")


@dataclasses.dataclass(frozen=True)
class Site:
    """All processes share `phase`; `states` says which phase each attacker is in. `efforts` counts
    what each did, in the order of EFFORTS. `ca` is set where the main port speaks TLS."""

    target: str
    health: str
    metrics: str
    ca: pathlib.Path | None
    phase: Any
    states: Any
    efforts: Any

    def channel(self) -> grpc.Channel:
        if self.ca is not None:
            return secure_channel(self.target, self.ca)
        return open_channel(self.target)
