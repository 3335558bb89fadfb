"""Strands' session repository and session manager."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from strands.session import RepositorySessionManager, SessionRepository
from strands.types.session import Session, SessionAgent, SessionMessage

from memoryd._adapters.connections import connection_of
from memoryd._connection import Connection
from memoryd._ids import Id, id_text
from memoryd.strands._session_steps import SessionSteps, conversation

if TYPE_CHECKING:
    from strands.multiagent.base import MultiAgentBase
    from strands.types.agent import LocalAgent


class MemorydSessionRepository(SessionRepository):
    """Keeps sessions, agents and messages in memoryd, for any number of objects and processes.

    The messages of an agent are a session of memoryd. So other clients read them and Query finds
    them, and an agent goes on with a conversation of another framework. The agent `default`, which
    is what Strands calls an agent without an id, has the session with the session's id; an agent
    `a` of the session `s` has `s/a`.
    """

    def __init__(
        self,
        target: str | Connection | None = None,
        *,
        namespace: Sequence[str] = ("strands",),
        template: str = "",
        subject: str = "",
        conversation: Callable[[str, str], str] = conversation,
        **options: Any,
    ) -> None:
        """`target` and `options` are as for memoryd.Client; without `target` the address comes from
        the environment. `namespace` is the path below which the items are that sessions and agents
        are. `template` names a configuration on the server, and `subject` the user whose data all
        of this is, for sessions that this object creates. Erasing the subject deletes them.
        `conversation` returns the id of the session of memoryd for a session's id and an agent's;
        without it the ids are as this class says."""
        self._connection = connection_of(target, options)
        self._steps = SessionSteps(namespace, template, subject, conversation)

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """Stores a session. Raises SessionException if it exists."""
        _check("session", session.session_id)
        self._connection.client._steps(self._steps.session_created(session))
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        """Returns a session, also one that another framework has begun."""
        _check("session", session_id)
        return self._connection.client._steps(self._steps.session(session_id))

    def delete_session(self, session_id: str, **kwargs: Any) -> None:
        """Deletes a session with its agents and their messages. Raises SessionException if it does
        not exist."""
        _check("session", session_id)
        self._connection.client._steps(self._steps.session_deleted(session_id))

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Stores an agent, in place of an earlier one. Its messages stay."""
        _check("session", session_id)
        _check("agent", session_agent.agent_id)
        self._connection.client._steps(self._steps.agent_created(session_id, session_agent))

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        _check("session", session_id)
        _check("agent", agent_id)
        return self._connection.client._steps(self._steps.agent(session_id, agent_id))

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Replaces an agent. Raises SessionException if it does not exist."""
        _check("session", session_id)
        _check("agent", session_agent.agent_id)
        self._connection.client._steps(self._steps.agent_updated(session_id, session_agent))

    def create_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Stores a message. Raises SessionException if there is one with its number, which another
        process has stored, and stores nothing then."""
        _check_message(session_id, agent_id, session_message.message_id)
        self._connection.client._steps(
            self._steps.message_created(session_id, agent_id, session_message))

    def read_message(
        self, session_id: str, agent_id: str, message_id: int, **kwargs: Any
    ) -> SessionMessage | None:
        _check_message(session_id, agent_id, message_id)
        return self._connection.client._steps(
            self._steps.message(session_id, agent_id, message_id))

    def update_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Replaces a message. Raises SessionException if it does not exist."""
        _check_message(session_id, agent_id, session_message.message_id)
        self._connection.client._steps(
            self._steps.message_updated(session_id, agent_id, session_message))

    def list_messages(
        self,
        session_id: str,
        agent_id: str,
        limit: int | None = None,
        offset: int = 0,
        **kwargs: Any,
    ) -> list[SessionMessage]:
        """Returns the messages with the number `offset` or a higher one, at most `limit`. Those
        that retention has removed count. Raises SessionException if there is no such agent."""
        _check("session", session_id)
        _check("agent", agent_id)
        return self._connection.client._steps(
            self._steps.messages(session_id, agent_id, limit, offset))

    def create_multi_agent(
        self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any
    ) -> None:
        """Stores the state of a graph or a swarm, in place of an earlier one."""
        _check("session", session_id)
        _check("agent", multi_agent.id)
        self._connection.client._steps(self._steps.group_created(
            session_id, multi_agent.id, multi_agent.serialize_state()))

    def read_multi_agent(
        self, session_id: str, multi_agent_id: str, **kwargs: Any
    ) -> dict[str, Any] | None:
        _check("session", session_id)
        _check("agent", multi_agent_id)
        return self._connection.client._steps(self._steps.group(session_id, multi_agent_id))

    def update_multi_agent(
        self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any
    ) -> None:
        """Replaces the state. Raises SessionException if there is none."""
        _check("session", session_id)
        _check("agent", multi_agent.id)
        self._connection.client._steps(self._steps.group_updated(
            session_id, multi_agent.id, multi_agent.serialize_state()))

    def _is_begun(self, session_id: str, agent_id: str) -> bool:
        return self._connection.client._steps(self._steps.is_begun(session_id, agent_id))


class MemorydSessionManager(RepositorySessionManager):
    """Keeps an agent, or several with different ids, in a session of memoryd:
    `Agent(session_manager=MemorydSessionManager("monday"))`.

    An agent that there is no record of goes on with the messages that another framework has put
    into the session. Strands' own manager over MemorydSessionRepository does all but that.
    """

    session_repository: MemorydSessionRepository

    def __init__(
        self,
        session_id: Id,
        target: str | Connection | None = None,
        *,
        namespace: Sequence[str] = ("strands",),
        template: str = "",
        subject: str = "",
        conversation: Callable[[str, str], str] = conversation,
        **options: Any,
    ) -> None:
        """`session_id` names the session; a UUID or an int is taken as its text. The others are as
        for MemorydSessionRepository. Creates the session if it does not exist."""
        repository = MemorydSessionRepository(
            target, namespace=namespace, template=template, subject=subject,
            conversation=conversation, **options)
        super().__init__(id_text(session_id), repository)

    def initialize(self, agent: LocalAgent, **kwargs: Any) -> None:
        """Restores the agent, or stores it if it is new."""
        is_known = agent.agent_id in self._latest_agent_message
        if not is_known and self.session_repository._is_begun(self.session_id, agent.agent_id):
            self.session_repository.create_agent(self.session_id, SessionAgent.from_agent(agent))
            self._is_new_session = False
        super().initialize(agent, **kwargs)


def _check(kind: str, name: str) -> None:
    """As Strands' own repositories check ids."""
    if os.path.basename(name) != name:
        raise ValueError(f"{kind}_id={name} | id cannot contain path separators")
    if not name:
        raise ValueError(f"{kind}_id= | id cannot be empty")


def _check_message(session_id: str, agent_id: str, message_id: int) -> None:
    _check("session", session_id)
    _check("agent", agent_id)
    if not isinstance(message_id, int):
        raise ValueError(f"message_id=<{message_id}> | message id must be an integer")
