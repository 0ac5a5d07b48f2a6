"""One vLLM with a real model on CPU, in float32, under storms of preemptions: `python -m model.storms MODEL on|off`.

`on` or `off` is the prefix cache. The same 16 calls are played several times, and each time is told as a line of JSON:
`{"play", "tokens": {call: [token]}, "records": [record], "steps", "free_blocks", "images", "used_slabs"}`, the last two
beside the scheduler and in the worker.

undisturbed  no call is preempted
always       running calls are preempted at random, and each is swapped at once
auto         the same, with half of the KV cache taken away, so that blocks that were left are given out
recompute    the same, and nothing is worth swapping
"""

from __future__ import annotations

import dataclasses
import random
import sys
import time
from typing import Any

from .real_engine import TOKENS_MAX, RealEngine, tell

# isort: split
from vllm import SamplingParams

from switchyard_vllm.handling.swap_choice import HandlingCosts

CALLS = 16
#: Room for all calls at once, and for half of them.
BLOCKS, PRESSED_BLOCKS = 97, 45
SEED = 7
PREEMPTIONS_A_STEP = 3
NEVER = HandlingCosts(0, 1, 1, 1)


class Storms(RealEngine):
    def __init__(self, model: str, prefix_cache: bool) -> None:
        super().__init__(model, seats=CALLS, blocks=BLOCKS, policy="fcfs", prefix_cache=prefix_cache)
        self.costs = self.swap._costs

    def play(self, name: str) -> dict[str, Any]:
        self.swap._rules = dataclasses.replace(self.swap._rules, always=name == "always")
        self.swap._costs = NEVER if name == "recompute" else self.costs
        pool = self.scheduler.kv_cache_manager.block_pool
        aside = pool.get_new_blocks(BLOCKS - PRESSED_BLOCKS) if name in ("auto", "recompute") else []
        draw = random.Random(SEED)
        system = [draw.randrange(TOKENS_MAX) for _ in range(40)]
        for call in range(CALLS):
            prompt = [*system, *(draw.randrange(TOKENS_MAX) for _ in range(draw.randint(5, 60)))]
            sampling = SamplingParams(max_tokens=draw.randint(12, 24), temperature=0, ignore_eos=True)
            self.engine.add_request(f"{name}-{call}", {"prompt_token_ids": prompt}, sampling)
        tokens: dict[str, list[int]] = {}
        steps = 0
        while self.engine.has_unfinished_requests():
            steps += 1
            if name != "undisturbed":
                self._preempt(draw)
            for output in self.engine.step():
                if output.finished:
                    tokens[output.request_id.removeprefix(f"{name}-")] = list(output.outputs[0].token_ids)
        pool.free_blocks(aside)
        return {"play": name, "tokens": tokens, "records": self.records(), "steps": steps, **self.left()}

    def _preempt(self, draw: random.Random) -> None:
        """As Switchyard's scheduler does before a step (preemption.py)."""
        scheduler = self.scheduler
        running = list(scheduler.running)
        for request in draw.sample(running, min(len(running), draw.randint(0, PREEMPTIONS_A_STEP))):
            scheduler.running.remove(request)
            scheduler._preempt_request(request, time.monotonic())
            scheduler.prev_step_scheduled_req_ids.discard(request.request_id)


def main() -> None:
    model, prefix_cache = sys.argv[1:]
    storms = Storms(model, prefix_cache == "on")
    for name in ("undisturbed", "always", "auto", "recompute"):
        tell(storms.play(name))


if __name__ == "__main__":
    main()
