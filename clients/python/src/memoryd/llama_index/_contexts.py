"""The memory that a run is given, against the one that is in its workflow's Context.

An agent takes the memory of the Context where there is one. The library's Memory never is there:
it can't be written as JSON, so that each run goes on with the memory that it is given. Ours can be,
and a run that is given another must not write to the one before.
"""

from __future__ import annotations

import functools
from typing import Any

from llama_index.core.agent.workflow import AgentWorkflow
from llama_index.core.agent.workflow.base_agent import BaseWorkflowAgent

from memoryd.llama_index.memory import Memory


def _prefer_what_is_given(agent: Any) -> None:
    begin = agent._init_context

    @functools.wraps(begin)
    async def _init_context(self: Any, ctx: Any, ev: Any) -> None:
        given = ev.get("memory", default=None)
        if given is not None:
            known = await ctx.store.get("memory", default=None)
            if isinstance(known, Memory) and known is not given:
                await ctx.store.set("memory", given)
        await begin(self, ctx, ev)

    agent._init_context = _init_context


_prefer_what_is_given(AgentWorkflow)
_prefer_what_is_given(BaseWorkflowAgent)
