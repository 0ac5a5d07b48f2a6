"""What goes wrong with the KV swap on vLLM's own scheduler: lost images, bugs, and models and settings that it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from vllm.config import KVTransferConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheGroupSpec, SlidingWindowSpec

from switchyard_vllm.swap.connector import BulkSwapConnector
from switchyard_vllm.swap.swap_options import SwapOptionsError
from switchyard_vllm.swap.swap_scheduler import SwapScheduler

from .swap_engine import SwapEngine, beside_another, kv_transfer
from .swap_plays import DEPTHS, ended, storm, swapped_out


def test_an_image_that_one_rank_could_not_keep_is_void_on_all() -> None:
    engine = SwapEngine(ranks=2, blocks=60, seats=8)
    worker = engine.ranks[1].connector.worker
    swap_out = worker.transfers.swap_out
    calls = iter(range(10**6))
    worker.transfers.swap_out = lambda *given: next(calls) % 3 > 0 and swap_out(*given)
    storm(engine, preemptions=300)
    engine.check_empty()
    assert engine.swap.swapped_in > 0


@DEPTHS
def test_kv_that_cannot_be_restored_is_computed_again(depth: int) -> None:
    engine = SwapEngine(depth=depth, blocks=60, seats=8)
    worker = engine.ranks[0].connector.worker
    swap_in = worker.transfers.swap_in
    calls = iter(range(10**6))

    def sometimes(*given: Any) -> None:
        if next(calls) % 3 == 0:
            raise RuntimeError("a copy that fails")
        swap_in(*given)

    worker.transfers.swap_in = sometimes
    storm(engine, preemptions=300)
    engine.check_empty()
    assert next(calls) > 20


@DEPTHS
@pytest.mark.parametrize("method", ["preempted", "matched", "admitted", "orders", "reported", "ended", "ready"])
def test_a_bug_in_the_swap_leaves_vllm_running(method: str, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = SwapEngine(depth=depth, blocks=60, seats=8)
    works = getattr(SwapScheduler, method)
    calls = iter(range(10**6))

    def fails_late(*given: Any) -> Any:
        if next(calls) == 30:
            raise RuntimeError("a bug of ours")
        return works(*given)

    monkeypatch.setattr(SwapScheduler, method, fails_late)
    swap = engine.swap
    storm(engine, preemptions=200)
    assert next(calls) > 30
    assert engine.scheduler.switchyard_swap.swap is None
    assert engine.scheduler.switchyard_failures == 0
    status = engine.scheduler.switchyard_meter.status()
    assert (status["swap_failed"], status["swap_declined"]) == (True, swap.declined)
    # The workers forget all images with the next step.
    pool = engine.scheduler.kv_cache_manager.block_pool
    assert pool.get_num_free_blocks() == pool.num_gpu_blocks - 1
    assert (swap.images, swap.watched_blocks) == (0, 0)
    assert engine.ranks[0].connector.worker.transfers.images == 0


def test_kv_that_comes_back_changed_is_seen_by_these_tests() -> None:
    engine = swapped_out()
    transfers = engine.ranks[0].connector.worker.transfers
    transfers._arena._buffer += 1
    transfers._prefetched._buffer += 1
    with pytest.raises(AssertionError, match="other KV than its own"):
        ended(engine)


def test_a_gather_that_comes_too_late_is_seen_by_these_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = SwapEngine(blocks=17, seats=4)
    worker = engine.ranks[0].connector.worker
    before_forward = worker.before_forward
    late: list[Any] = []
    monkeypatch.setattr(worker, "before_forward", late.append)
    connector_output = engine.connector_output

    def after() -> Any:
        while late:
            before_forward(late.pop(0))
        return connector_output()

    monkeypatch.setattr(engine, "connector_output", after)
    with pytest.raises(AssertionError, match="other KV than its own"):
        storm(engine, preemptions=100)


# With what it works, and with what it does not.


@DEPTHS
def test_it_works_beside_another_connector(depth: int) -> None:
    engine = SwapEngine(depth=depth, blocks=60, seats=8, kv_transfer=beside_another())
    storm(engine, preemptions=300)
    engine.check_empty()
    assert engine.swap.swapped_in > 20


def refusal(*, groups: list[Any] | None = None, transfer: dict[str, Any] | None = None, **config: Any) -> str:
    engine = SwapEngine()
    vllm_config, kv_cache_config = engine.vllm_config, engine.kv_cache_config
    if transfer is not None:
        vllm_config.kv_transfer_config = KVTransferConfig(**transfer)
    for name, value in config.items():
        setattr(vllm_config, name, value)
    if groups is not None:
        kv_cache_config.kv_cache_groups = groups
    with pytest.raises(SwapOptionsError) as refused:
        BulkSwapConnector(vllm_config, KVConnectorRole.SCHEDULER, kv_cache_config)
    return str(refused.value)


def test_models_whose_kv_it_cannot_move_are_refused_at_start() -> None:
    sizes: dict[str, Any] = {"block_size": 32, "num_kv_heads": 1, "head_size": 1, "dtype": torch.float32}
    full = KVCacheGroupSpec(["a"], FullAttentionSpec(**sizes))
    window = KVCacheGroupSpec(["b"], SlidingWindowSpec(**sizes, sliding_window=64))
    assert "this one has 2" in refusal(groups=[full, window])
    assert "SlidingWindowSpec" in refusal(groups=[window])
    assert "speculative decoding" in refusal(speculative_config=object())


def test_settings_with_which_it_cannot_work_are_refused_at_start() -> None:
    assert "kv_producer" in refusal(transfer={**kv_transfer(), "kv_role": "kv_both"})
    assert "no option 'arena'" in refusal(transfer=kv_transfer(arena=1))
    assert "above 0" in refusal(transfer=kv_transfer(prefetch_gib=0))
    assert "must be one of auto" in refusal(transfer=kv_transfer(backend="cuda"))
