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
import json
import os
import random
import sys
import time
from typing import Any

os.environ.update(
    HF_HUB_OFFLINE="1",
    VLLM_NO_USAGE_STATS="1",
    VLLM_ENABLE_V1_MULTIPROCESSING="0",
    VLLM_CPU_KVCACHE_SPACE="1",
    VLLM_LOGGING_LEVEL="ERROR",
)

from vllm import LLM, SamplingParams
from vllm.distributed.kv_transfer import get_kv_transfer_group

from switchyard_vllm.handling.swap_choice import HandlingCosts

CALLS = 16
#: Room for all calls at once, and for half of them.
BLOCKS, PRESSED_BLOCKS = 97, 45
SEED = 7
TOKENS_MAX = 40_000
PREEMPTIONS_A_STEP = 3
NEVER = HandlingCosts(0, 1, 1, 1)
#: A machine that is busy while it measures would choose otherwise.
COSTS = {"base_us": 0, "save_us_per_token": 1, "restore_us_per_token": 1, "recompute_us_per_token": 50}
SWAP = {"arena_gib": 1, "ring_gib": 0.05, "prefetch_gib": 0.05, "checksums": True, **COSTS}


class Storms:
    def __init__(self, model: str, prefix_cache: bool) -> None:
        self.engine: Any = LLM(
            model=model,
            dtype="float32",
            enforce_eager=True,
            block_size=32,
            max_model_len=1024,
            max_num_seqs=CALLS,
            num_gpu_blocks_override=BLOCKS,
            enable_prefix_caching=prefix_cache,
            scheduling_policy="priority",
            scheduler_cls="switchyard_vllm.ProgramAwareScheduler",
            additional_config={"switchyard": {"policy": "fcfs"}},
            kv_transfer_config={
                "kv_connector": "BulkSwapConnector",
                "kv_connector_module_path": "switchyard_vllm.swap.connector",
                "kv_role": "kv_producer",
                "kv_connector_extra_config": SWAP,
            },
        ).llm_engine
        self.scheduler: Any = self.engine.engine_core.engine_core.scheduler
        self.swap: Any = self.scheduler.switchyard_swap.swap
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
        # What workers are told of calls that have ended comes with the next step.
        self.engine.engine_core.engine_core.step()
        pool.free_blocks(aside)
        transfers = get_kv_transfer_group().worker.transfers
        return {
            "play": name,
            "tokens": tokens,
            "records": [record.as_dict() for record in self.scheduler.switchyard_sink.take()],
            "steps": steps,
            "free_blocks": pool.get_num_free_blocks(),
            "images": [self.swap.images, transfers.images],
            "used_slabs": [self.swap.used_slabs, transfers._arena.slabs - transfers.free_slabs],
        }

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
        print(json.dumps(storms.play(name)), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
