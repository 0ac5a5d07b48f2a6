"""vLLM's scheduler with the plug-in, stepped by another process on that one's clock: `python -m scheduler.step_server`.

JSON lines. First comes the setting (seats, blocks, block_tokens, switchyard); then by turns

    {"do": "schedule", "now_us", "calls": [{"name", "prompt", "output", "salt", "xargs"}]}
        → {"work": [[name, from, to, samples]]}: what the step computes
    {"do": "update", "now_us"} → {"ended": [record]}: the step has ended, and with it these calls

The caller says how long a step takes, so that one latency model serves both sides of a comparison (simulator/fidelity).
"""

from __future__ import annotations

import json
import sys
from typing import Any

from switchyard_vllm import ProgramAwareScheduler

from .harness import Engine


class StepServer:
    def __init__(self, setting: dict[str, Any]) -> None:
        self.engine = Engine(ProgramAwareScheduler, **setting)

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        self.engine.clock.now_us = message["now_us"]
        return self._schedule(message["calls"]) if message["do"] == "schedule" else self._update(message["now_us"])

    def _schedule(self, calls: list[dict[str, Any]]) -> dict[str, Any]:
        for call in calls:
            self.engine.add(**call)
        output = self.engine.schedule()
        _, outcome, _ = self.engine.pending[-1]
        work: list[list[Any]] = []
        for name, tokens in output.num_scheduled_tokens.items():
            to_tokens = self.engine.scheduler.requests[name].num_computed_tokens
            sampled = outcome.sampled_token_ids[outcome.req_id_to_index[name]]
            work.append([name, to_tokens - tokens, to_tokens, bool(sampled)])
        return {"work": work}

    def _update(self, now_us: int) -> dict[str, Any]:
        output, outcome, _ = self.engine.pending.pop()
        self.engine.pending.append((output, outcome, now_us))
        self.engine.update()
        return {"ended": [record.as_dict() for record in self.engine.scheduler.switchyard_sink.take()]}


def main() -> None:
    server = StepServer(json.loads(sys.stdin.readline()))
    print(json.dumps({"ready": True}), flush=True)  # noqa: T201
    for line in sys.stdin:
        print(json.dumps(server.answer(json.loads(line))), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
