"""An agent of Pydantic AI with a tool that answers, and one that fails."""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent, ModelRetry


def weather_agent(model: Any) -> Agent:
    agent = Agent(model)

    @agent.tool_plain
    def weather(city: str) -> str:
        return f"sun in {city}"

    @agent.tool_plain
    def fail(city: str) -> str:
        raise ModelRetry(f"no {city}")

    return agent
