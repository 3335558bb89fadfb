"""What a session object knows of what is stored."""

from __future__ import annotations

import dataclasses

from google.adk.sessions import Session


@dataclasses.dataclass(frozen=True)
class Marker:
    """The revision of the session, the position of its last message, and the version of its state.
    It is kept where ADK's own services keep theirs, so that copies of the session have it."""

    revision: int
    position: int
    version: int

    @classmethod
    def of(cls, session: Session) -> Marker | None:
        parts = (session._storage_update_marker or "").split("/")
        if len(parts) != 3 or not all(part.isdecimal() for part in parts):
            return None
        return cls(*map(int, parts))

    def put_on(self, session: Session) -> None:
        session._storage_update_marker = f"{self.revision}/{self.position}/{self.version}"
