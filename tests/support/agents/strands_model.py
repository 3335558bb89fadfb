"""A scripted model of Strands, which keeps what it was asked."""

from __future__ import annotations

import copy
import json
from typing import Any

from strands.models import Model

Dict = dict[str, Any]


class Scripted(Model):
    """Says one list of blocks after the other."""

    def __init__(self, *said: list[Dict]) -> None:
        self._said = iter(said)
        self.asked: list[list[Dict]] = []

    async def stream(self, messages, *rest, **named):
        self.asked.append(copy.deepcopy(messages))
        said = next(self._said)
        yield {"messageStart": {"role": "assistant"}}
        for block in said:
            use = block.get("toolUse")
            yield {"contentBlockStart": {"start": {"toolUse": {
                "toolUseId": use["toolUseId"], "name": use["name"]}} if use else {}}}
            for delta in _deltas(block):
                yield {"contentBlockDelta": {"delta": delta}}
            yield {"contentBlockStop": {}}
        calls = any("toolUse" in block for block in said)
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}

    def get_config(self):
        return {}

    def update_config(self, **config):
        raise NotImplementedError

    def structured_output(self, *arguments, **named):
        raise NotImplementedError


def _deltas(block: Dict) -> list[Dict]:
    if "toolUse" in block:
        return [{"toolUse": {"input": json.dumps(block["toolUse"]["input"])}}]
    thought = block.get("reasoningContent", {}).get("reasoningText")
    return [{"text": block["text"]}] if thought is None else [
        {"reasoningContent": {"text": thought["text"]}},
        {"reasoningContent": {"signature": thought["signature"]}}]


def use(call_id: str, name: str = "weather", **given: Any) -> Dict:
    return {"toolUse": {"toolUseId": call_id, "name": name, "input": given or {"city": "Lyon"}}}
