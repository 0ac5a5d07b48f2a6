"""Workers under vLLM's scheduler that keep real KV and no model: what lies at a position tells which tokens led to it.

Each rank has KV tensors of its own and the swap as vLLM's workers have it, on CPU. Before a step computes anything, every block
that it reads is compared with what it must hold. So KV that was restored wrongly, too late, or over a block of another call
is seen by the next step that reads it.
"""

from __future__ import annotations

import copy
import time
from collections import deque
from typing import Any

import torch
from vllm.config import KVTransferConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.distributed.kv_transfer.kv_connector.v1.multi_connector import (
    MultiConnector,
    MultiKVConnectorMetadata,
    MultiKVConnectorWorkerMetadata,
)
from vllm.v1.outputs import KVConnectorOutput
from vllm.v1.request import RequestStatus

from switchyard_vllm import ProgramAwareScheduler
from switchyard_vllm.swap.connector import BulkSwapConnector

from .harness import TOKEN, Engine

LAYERS = 2
#: Of the harness's KV: one head of size 1, float32, K and V.
BYTES_PER_TOKEN = 8
#: Numbers that float32 holds exactly.
MARKS = 1 << 23
FREE: dict[str, float] = {"base_us": 0, "save_us_per_token": 0, "restore_us_per_token": 0, "recompute_us_per_token": 1}


def kv_transfer(
    *,
    arena_tokens: int = 1 << 14,
    ring_tokens: int = 1 << 12,
    prefetch_tokens: int = 1 << 12,
    costs: dict[str, float] = FREE,
    **more: Any,
) -> dict[str, Any]:
    gib = LAYERS * BYTES_PER_TOKEN / 2**30
    sizes = {"arena_gib": arena_tokens * gib, "ring_gib": ring_tokens * gib, "prefetch_gib": prefetch_tokens * gib}
    return {
        "kv_connector": "BulkSwapConnector",
        "kv_connector_module_path": "switchyard_vllm.swap.connector",
        "kv_role": "kv_producer",
        "kv_connector_extra_config": {**sizes, **costs, **more},
    }


def beside_another(**given: Any) -> dict[str, Any]:
    """Ours is the first of two connectors."""
    other = {"kv_connector": "NoKv", "kv_connector_module_path": "scheduler.fakes", "kv_role": "kv_producer"}
    connectors = {"connectors": [kv_transfer(**given), other]}
    return {"kv_connector": "MultiConnector", "kv_role": "kv_producer", "kv_connector_extra_config": connectors}


class Rank:
    def __init__(self, engine: Engine, index: int) -> None:
        config = copy.copy(engine.vllm_config)
        connectors = config.kv_transfer_config.kv_connector_extra_config.get("connectors")
        if connectors is not None:
            config.kv_transfer_config = KVTransferConfig(**connectors[0])
        self.connector: Any = BulkSwapConnector(config, KVConnectorRole.WORKER, engine.kv_cache_config)
        self.index = index
        blocks = engine.kv_cache_config.num_blocks
        shape = (blocks, 1, engine.block_tokens, 2)
        self.layers = {f"layer.{layer}": torch.full(shape, -1.0) for layer in range(LAYERS)}
        self.connector.register_kv_caches(self.layers)

    def marks(self, table: torch.Tensor, layer: int) -> torch.Tensor:
        """At each position of a call's blocks."""
        return self.layers[f"layer.{layer}"][table, 0, :, 0].flatten()

    def write(self, table: torch.Tensor, start: int, marks: torch.Tensor, block_tokens: int) -> None:
        positions = torch.arange(start, start + len(marks))
        for layer in range(LAYERS):
            kv = self.layers[f"layer.{layer}"]
            kv[table[positions // block_tokens], 0, positions % block_tokens, 0] = marks + self.own(layer)

    def own(self, layer: int) -> int:
        return self.index * LAYERS + layer


class SwapEngine(Engine):
    def __init__(
        self, cls: type[Any] = ProgramAwareScheduler, *, ranks: int = 1, lag_steps: int = 0, **given: Any
    ) -> None:
        """`lag_steps`: how much later than the others each further rank reports."""
        given.setdefault("switchyard", {"policy": "fcfs"})
        given.setdefault("kv_transfer", kv_transfer())
        super().__init__(cls, ranks=ranks, layers=LAYERS, **given)
        self.ranks = [Rank(self, index) for index in range(ranks)]
        self._reports: list[deque[Any]] = [deque([None] * lag_steps * index) for index in range(ranks)]
        #: Tokens of each call as the workers know them, and what they leave at each position.
        self._tokens: dict[str, list[int]] = {}
        self._marks: dict[str, list[int]] = {}
        #: Calls whose KV could not be restored, and how often they were preempted until then.
        self._spoilt: dict[str, int] = {}
        self.orders: list[Any] = []

    @property
    def swap(self) -> Any:
        return self.scheduler.switchyard_swap.swap

    def preempt(self, name: str) -> None:
        """As Switchyard's scheduler does before a step (preemption.py)."""
        request = self.scheduler.requests[name]
        self.scheduler.running.remove(request)
        self.scheduler._preempt_request(request, time.monotonic())
        self.scheduler.prev_step_scheduled_req_ids.discard(name)

    def compute(self, output: Any) -> dict[str, int]:
        metadata = output.kv_connector_metadata
        if isinstance(metadata, MultiKVConnectorMetadata):
            metadata = metadata.metadata[0]
        self.orders.append(metadata.orders)
        for rank in self.ranks:
            rank.connector.handle_preemptions(metadata)
            # Model runner V2 calls it again.
            rank.connector.handle_preemptions(metadata)
            rank.connector.bind_connector_metadata(metadata)
            if output.has_sync_kv_loads:
                rank.connector.start_load_kv(None)
        unloaded = {block for rank in self.ranks for block in rank.connector.worker._report.unloaded_blocks}
        sampled = {name: self._forward(name, tokens, unloaded) for name, tokens in output.num_scheduled_tokens.items()}
        for rank in self.ranks:
            if not output.has_sync_kv_loads:
                rank.connector.start_load_kv(None)
            rank.connector.clear_connector_metadata()
        return sampled

    def connector_output(self) -> Any:
        merged = None
        for rank, reports in zip(self.ranks, self._reports, strict=True):
            reports.append(rank.connector.build_connector_worker_meta())
            report = reports.popleft()
            if report is not None:
                merged = report if merged is None else merged.aggregate(report)
        if merged is not None and isinstance(self.scheduler.connector, MultiConnector):
            merged = MultiKVConnectorWorkerMetadata((merged, None))
        return KVConnectorOutput(kv_connector_worker_meta=merged)

    def _forward(self, name: str, tokens: int, unloaded: set[int]) -> int:
        request = self.scheduler.requests[name]
        if request.status != RequestStatus.RUNNING:
            # Preempted after it was planned: the outcome is dropped.
            return TOKEN
        end: int = request.num_computed_tokens
        start = end - tokens
        self._learn(request, tokens)
        marks = torch.tensor(self._marks[name], dtype=torch.float32)
        assert len(marks) >= end, "tokens are known when their KV is computed"
        (table,) = self.scheduler.kv_cache_manager.get_block_ids(name)
        blocks = torch.tensor(table)
        if unloaded.intersection(table):
            self._spoilt[name] = request.num_preemptions
        # Until it is preempted for that, which takes as long as the outcome of the step.
        spoilt = self._spoilt.get(name) == request.num_preemptions
        for rank in self.ranks:
            for layer in range(LAYERS):
                if not spoilt:
                    held = rank.marks(blocks, layer)[:start]
                    wrong = (held != marks[:start] + rank.own(layer)).nonzero().flatten().tolist()
                    assert not wrong, f"{name} finds other KV than its own at {wrong[:5]} of {start} tokens"
            rank.write(blocks, start, marks[start:end], self.block_tokens)
        token: int = 3 + self._marks[name][end - 1] % 900
        if len(self._tokens[name]) == end:
            self._extend(name, token)
        return token

    def _learn(self, request: Any, tokens: int) -> None:
        """Of a call without tokens under way the scheduler knows all; the others' come from the steps before."""
        name = request.request_id
        known = len(self._tokens.get(name, ()))
        if request.num_in_flight_tokens == tokens and known != request.num_tokens:
            self._tokens[name] = []
            self._marks[name] = []
            for token in request.all_token_ids:
                self._extend(name, token)

    def _extend(self, name: str, token: int) -> None:
        marks = self._marks[name]
        before = marks[-1] if marks else 1
        marks.append((before * 31 + token * 7 + 1) % MARKS)
        self._tokens[name].append(token)

    def check_empty(self) -> None:
        """No call is open: nothing is held anywhere."""
        self.schedule()
        while self.pending:
            self.update()
        pool = self.scheduler.kv_cache_manager.block_pool
        assert pool.get_num_free_blocks() == pool.num_gpu_blocks - 1
        swap = self.swap
        assert (swap.images, swap.used_slabs, swap.watched_calls, swap.watched_blocks) == (0, 0, 0, 0)
        assert (swap.leaving_blocks, swap.staged_blocks) == (0, 0)
        assert not swap._held.by_id
        for held in ("_owners", "_owned", "_drop", "_into"):
            assert not getattr(swap, held), held
        for rank in self.ranks:
            transfers = rank.connector.worker.transfers
            assert (transfers.images, transfers.free_slabs) == (0, transfers._arena.slabs)
