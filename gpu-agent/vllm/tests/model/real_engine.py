"""One vLLM with a real model on CPU, in float32, for programs of tests that run in a process of their own."""

from __future__ import annotations

import json
import os
from typing import Any

os.environ.update(
    HF_HUB_OFFLINE="1",
    VLLM_NO_USAGE_STATS="1",
    VLLM_ENABLE_V1_MULTIPROCESSING="0",
    VLLM_CPU_KVCACHE_SPACE="1",
    VLLM_LOGGING_LEVEL="ERROR",
)

from vllm import LLM
from vllm.distributed.kv_transfer import get_kv_transfer_group

BLOCK_TOKENS = 32
#: Ids of tokens are drawn from 0 to this.
TOKENS_MAX = 40_000
#: A machine that is busy while it measures would choose otherwise.
COSTS = {"base_us": 0, "save_us_per_token": 1, "restore_us_per_token": 1, "recompute_us_per_token": 50}
SWAP = {"arena_gib": 1, "ring_gib": 0.05, "prefetch_gib": 0.05, "checksums": True, **COSTS}


class RealEngine:
    def __init__(self, model: str, *, seats: int, blocks: int, policy: str, prefix_cache: bool) -> None:
        self.engine: Any = LLM(
            model=model,
            dtype="float32",
            enforce_eager=True,
            block_size=BLOCK_TOKENS,
            max_model_len=1024,
            max_num_seqs=seats,
            num_gpu_blocks_override=blocks,
            enable_prefix_caching=prefix_cache,
            scheduling_policy="priority",
            scheduler_cls="switchyard_vllm.ProgramAwareScheduler",
            additional_config={"switchyard": {"policy": policy}},
            kv_transfer_config={
                "kv_connector": "BulkSwapConnector",
                "kv_connector_module_path": "switchyard_vllm.swap.connector",
                "kv_role": "kv_producer",
                "kv_connector_extra_config": SWAP,
            },
        ).llm_engine
        self.scheduler: Any = self.engine.engine_core.engine_core.scheduler
        self.swap: Any = self.scheduler.switchyard_swap.swap

    def records(self) -> list[dict[str, Any]]:
        """Of calls that have ended since the last time."""
        return [record.as_dict() for record in self.scheduler.switchyard_sink.take()]

    def left(self) -> dict[str, Any]:
        """What is held when no call is open, images and slabs beside the scheduler and in the worker."""
        # What workers are told of calls that have ended comes with the next step.
        self.engine.engine_core.engine_core.step()
        transfers = get_kv_transfer_group().worker.transfers
        return {
            "free_blocks": self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks(),
            "images": [self.swap.images, transfers.images],
            "used_slabs": [self.swap.used_slabs, transfers._arena.slabs - transfers.free_slabs],
        }


def tell(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)  # noqa: T201
