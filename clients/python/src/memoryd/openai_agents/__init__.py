"""A session of OpenAI's Agents SDK in memoryd.

    from memoryd.openai_agents import MemorydSession

    result = await Runner.run(agent, "What is 6 x 7?", session=MemorydSession("monday"))
"""

from memoryd._connection import Connection
from memoryd.openai_agents.session import MemorydSession

__all__ = ["Connection", "MemorydSession"]
