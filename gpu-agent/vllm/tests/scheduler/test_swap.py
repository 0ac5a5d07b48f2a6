"""The KV swap on vLLM's own scheduler: what is restored is what was there, and nothing is left behind.

The workers of swap_engine.py compare all KV that a step reads with what it must be.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from vllm.config import KVTransferConfig
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheGroupSpec, SlidingWindowSpec
from vllm.v1.request import RequestStatus

from switchyard_vllm import ProgramAwareScheduler
from switchyard_vllm.swap.connector import BulkSwapConnector
from switchyard_vllm.swap.orders import CopyCosts
from switchyard_vllm.swap.swap_options import SwapOptionsError
from switchyard_vllm.swap.swap_scheduler import SwapScheduler
from switchyard_vllm.swap.transfers import ImageState

from .fakes import Indexed
from .harness import BLOCK_TOKENS, Engine
from .loads import ticket
from .swap_engine import SwapEngine, beside_another, kv_transfer

DEPTHS = pytest.mark.parametrize("depth", [1, 2])


def prompt(draw: random.Random, tokens: int, shared: int = 0) -> list[int]:
    return [9] * shared + [draw.randrange(3, 900) for _ in range(tokens)]


def storm(engine: SwapEngine, *, preemptions: int, calls: int = 24, seed: int = 1, at_once: int = 2) -> int:
    """Calls come and go while running ones are preempted at random, until so many were. Returns how many calls there were."""
    draw = random.Random(seed)
    scheduler = engine.scheduler
    added = 0
    left = preemptions
    for _ in range(60 * preemptions):
        while left > 0 and len(scheduler.requests) < calls:
            added += 1
            shared = BLOCK_TOKENS * draw.randrange(3)
            engine.add(f"c{added}", prompt=prompt(draw, draw.randint(5, 150), shared), output=draw.randint(1, 60))
        running = [one.request_id for one in scheduler.running]
        for name in draw.sample(running, min(left, len(running), draw.randint(0, at_once))):
            left -= 1
            engine.preempt(name)
        if draw.randrange(40) == 0 and scheduler.requests:
            engine.abort(draw.choice(sorted(scheduler.requests)))
        if scheduler.has_unfinished_requests():
            engine.step()
        elif engine.pending:
            engine.update()
        else:
            break
    else:
        raise AssertionError("the calls do not end")
    assert left == 0
    return added


def crowd_out_victim(engine: SwapEngine) -> None:
    """`victim` is preempted, and `other` comes, which will take its blocks."""
    draw = random.Random(3)
    engine.add("victim", prompt=prompt(draw, 200), output=30)
    for _ in range(6):
        engine.step()
    engine.preempt("victim")
    engine.add("other", prompt=prompt(draw, 400), output=30)


def swapped_out(**given: Any) -> SwapEngine:
    """`victim` has become an image, since `other` took its blocks; `other` runs."""
    engine = SwapEngine(**{"blocks": 17, "seats": 4, **given})
    crowd_out_victim(engine)
    while not engine.orders[-1].out:
        engine.step()
    return engine


def ended(engine: SwapEngine) -> None:
    """Every call that is open gets all of its tokens, and nothing is left."""
    scheduler = engine.scheduler
    wanted = {name: request.max_tokens for name, request in scheduler.requests.items()}
    engine.run()
    assert {name: len(engine.play.tokens[name]) for name in wanted} == wanted
    engine.check_empty()


@DEPTHS
@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("mode", ["auto", "always"])
def test_a_storm_of_preemptions_restores_what_was_there_and_leaves_nothing(
    depth: int, prefix_cache: bool, mode: str
) -> None:
    transfer = kv_transfer(mode=mode)
    engine = SwapEngine(depth=depth, prefix_cache=prefix_cache, blocks=60, seats=8, kv_transfer=transfer)
    storm(engine, preemptions=300)
    engine.check_empty()
    assert engine.swap.swapped_in > 20


@DEPTHS
def test_ten_thousand_preemptions_leak_nothing(depth: int) -> None:
    engine = SwapEngine(depth=depth, blocks=60, seats=8)
    storm(engine, preemptions=10_000, at_once=8)
    engine.check_empty()
    assert engine.swap.swapped_in > 1_000


# What is copied, and when.


def test_nothing_is_copied_while_there_is_room() -> None:
    engine = SwapEngine(blocks=100, seats=4)
    draw = random.Random(1)
    # Whole blocks: the prefix cache has all but what is computed in any case.
    engine.add("victim", prompt=prompt(draw, 5 * BLOCK_TOKENS), output=4)
    engine.add("other", prompt=prompt(draw, 100), output=20)
    engine.step()
    engine.preempt("victim")
    assert engine.swap.watched_blocks > 0
    ended(engine)
    assert not any(orders.out for orders in engine.orders)


def test_one_gather_takes_all_of_a_call_in_the_step_that_takes_its_first_block() -> None:
    engine = swapped_out()
    (out,) = engine.orders[-1].out
    # 200 tokens of the prompt and those that it has got.
    assert len(out.block_ids) == 7
    (table,) = engine.scheduler.kv_cache_manager.get_block_ids("other")
    assert set(out.block_ids) & set(table), "they are given out in the same step"
    assert not any(orders.out for orders in engine.orders[:-1])
    ended(engine)


def test_blocks_that_another_call_uses_are_not_part_of_the_image() -> None:
    engine = SwapEngine(blocks=40, seats=4, kv_transfer=kv_transfer(mode="always"))
    draw = random.Random(2)
    system = prompt(draw, 3 * BLOCK_TOKENS)
    for name in ("keeps", "victim"):
        engine.add(name, prompt=[*system, *prompt(draw, 100)], output=20)
        engine.step()
    (table,) = engine.scheduler.kv_cache_manager.get_block_ids("victim")
    shared, own = table[:3], table[3:]
    engine.preempt("victim")
    engine.step()
    (out,) = engine.orders[-1].out
    assert list(out.block_ids) == own
    assert not set(shared) & set(out.block_ids)
    ended(engine)


def test_a_call_comes_back_to_all_but_its_last_token_and_waits_without_blocks() -> None:
    engine = swapped_out(prefix_cache=False)
    engine.abort("other")
    request = engine.scheduler.requests["victim"]
    while request.status == RequestStatus.PREEMPTED:
        assert engine.scheduler.kv_cache_manager.get_block_ids("victim") == ([],)
        engine.step()
    (into,) = engine.orders[-1].into
    assert (into.first_row, len(into.block_ids)) == (0, 7)
    assert engine.play.steps[-1] == {"victim": 1}
    ended(engine)


def test_an_image_counts_as_at_hand_and_as_on_the_device_once_it_is_staged() -> None:
    engine = swapped_out(prefix_cache=False)
    request = engine.scheduler.requests["victim"]
    residency = engine.scheduler.switchyard.residency
    assert residency.resident(request) == (200, 0)
    engine.abort("other")
    while not engine.swap.staged(request):
        assert residency.resident(request) == (200, 0)
        engine.step()
    assert residency.resident(request) == (200, 200)
    ended(engine)


def test_under_async_scheduling_an_image_ends_before_the_tokens_that_are_under_way() -> None:
    engine = SwapEngine(depth=2, blocks=17, seats=4, prefix_cache=False, kv_transfer=kv_transfer(mode="always"))
    engine.add("victim", prompt=prompt(random.Random(1), 2 * BLOCK_TOKENS - 2), output=8)
    engine.step()
    engine.step()
    request = engine.scheduler.requests["victim"]
    assert request.num_output_placeholders > 0
    stable = request.num_computed_tokens - request.num_output_placeholders
    assert stable < 2 * BLOCK_TOKENS < request.num_computed_tokens + 2
    engine.preempt("victim")
    engine.schedule()
    image = engine.swap._images["victim"]
    assert image.tokens == stable
    ended(engine)


def test_records_say_what_was_swapped_and_what_was_computed_again() -> None:
    engine = swapped_out(prefix_cache=False)
    ended(engine)
    records = {record.request_id: record.measurement for record in engine.scheduler.switchyard_sink.take()}
    victim = records["victim"]
    held = 205
    assert (victim.swapped_out_tokens, victim.swapped_in_tokens, victim.recomputed_tokens) == (held, held, 0)
    assert victim.swap_us > 0
    status = engine.scheduler.switchyard_meter.mailbox.status()
    assert (status["swapped_out_tokens"], status["swapped_in_tokens"], status["swap_us"]) == (
        held,
        held,
        victim.swap_us,
    )
    assert (records["other"].swapped_out_tokens, records["other"].swapped_in_tokens) == (0, 0)


def test_without_the_swap_records_count_what_is_computed_again() -> None:
    engine = Engine(ProgramAwareScheduler, blocks=100, seats=4, prefix_cache=False, switchyard={})
    engine.add("victim", prompt=100, output=20)
    for _ in range(3):
        engine.step()
    SwapEngine.preempt(engine, "victim")  # type: ignore[arg-type]
    engine.run()
    (record,) = engine.scheduler.switchyard_sink.take()
    assert (record.measurement.preemptions, record.measurement.recomputed_tokens) == (1, 102)


# Ends and voids.


@pytest.mark.parametrize("lag_steps", [0, 3])
def test_a_call_may_end_at_any_point_of_its_way_out_and_back(lag_steps: int) -> None:
    """With a second rank that reports late, the steps between are many."""
    for steps in range(12):
        engine = swapped_out(ranks=2, lag_steps=lag_steps)
        for _ in range(steps):
            engine.step()
        engine.abort("victim")
        ended(engine)


@DEPTHS
def test_a_call_may_end_in_the_step_in_which_it_is_swapped_out(depth: int) -> None:
    engine = SwapEngine(depth=depth, blocks=17, seats=4, kv_transfer=kv_transfer(mode="always"))
    engine.add("victim", prompt=prompt(random.Random(1), 100), output=2)
    for _ in range(3):
        engine.schedule()
        if depth == 1:
            engine.update()
        if "victim" in [one.request_id for one in engine.scheduler.running]:
            engine.preempt("victim")
    engine.run()
    assert len(engine.play.tokens["victim"]) == 2
    engine.check_empty()


@DEPTHS
def test_a_reset_of_the_prefix_cache_voids_all_images(depth: int) -> None:
    engine = swapped_out(depth=depth)
    assert engine.swap.images == 1
    swapped_in = engine.swap.swapped_in
    assert engine.scheduler.reset_prefix_cache(reset_running_requests=True)
    assert (engine.swap.images, engine.swap.watched_calls) == (0, 0)
    engine.run()
    assert any(orders.reset for orders in engine.orders)
    assert engine.swap.swapped_in == swapped_in
    engine.check_empty()


def test_a_shutdown_with_images_held_gives_the_block_pool_back() -> None:
    engine = swapped_out()
    pool = engine.scheduler.kv_cache_manager.block_pool
    worker = engine.ranks[0].connector
    assert worker.worker.transfers.images == 1
    engine.scheduler.shutdown()
    worker.shutdown()
    assert pool.get_new_blocks.__func__ is type(pool).get_new_blocks
    assert engine.scheduler.switchyard_swap.swap is None


# Limits.


def test_a_full_arena_keeps_what_is_worth_most_and_never_grows() -> None:
    slabs = 4
    transfer = kv_transfer(arena_tokens=slabs * 8 * BLOCK_TOKENS)
    engine = SwapEngine(blocks=60, seats=8, kv_transfer=transfer)
    used: list[int] = []
    take = engine.schedule

    def watched(**given: Any) -> Any:
        output = take(**given)
        used.append(engine.swap.used_slabs)
        return output

    engine.schedule = watched  # type: ignore[method-assign]
    storm(engine, preemptions=400, at_once=6)
    engine.check_empty()
    assert max(used) == slabs
    assert engine.swap.declined > 0
    assert engine.swap.dropped > 0
    assert engine.swap.swapped_in > 0


def test_a_call_that_is_cheaper_to_compute_is_not_swapped() -> None:
    engine = SwapEngine(blocks=60, seats=8, kv_transfer=kv_transfer(save_us_per_token=2.0))
    storm(engine, preemptions=200)
    engine.check_empty()
    assert (engine.swap.swapped_out, engine.swap.swapped_in) == (0, 0)
    assert engine.swap.declined > 0


@pytest.mark.parametrize("transfer", [kv_transfer, beside_another])
def test_costs_are_what_the_slowest_rank_and_the_prefills_take(transfer: Any) -> None:
    engine = SwapEngine(ranks=2, lag_steps=0, kv_transfer=transfer(costs={}))
    costs = engine.scheduler.switchyard_swap.costs
    slow = [CopyCosts(300, 1, 4), CopyCosts(200, 2, 3)]
    for rank, own in zip(engine.ranks, slow, strict=True):
        told = rank.connector.worker._report
        assert told.copy_costs is not None, "each worker has measured"
        told.copy_costs = own
    assert not costs.measured
    engine.add("a", prompt=prompt(random.Random(1), 150), output=5)
    engine.run()
    current = costs.current
    assert (current.base_us, current.save_us_per_token, current.restore_us_per_token) == (300, 2, 4)
    assert current.recompute_us_per_token == engine.scheduler.switchyard.hold.prefill_speed.us_per_token > 0
    engine.scheduler.switchyard.report(engine.clock.now_us)
    assert engine.scheduler.switchyard_meter.mailbox.status()["swap_costs"] == costs.as_dict()
    assert costs.as_dict()["measured"]
    assert current is engine.swap._costs, "the choice goes by them"


#: Moving a token out takes less than computing it, but not twice.
TIGHT: dict[str, float] = {
    "base_us": 0,
    "save_us_per_token": 0.6,
    "restore_us_per_token": 0,
    "recompute_us_per_token": 1,
}


def through_ring(blocks: int) -> dict[str, Any]:
    return kv_transfer(ring_tokens=blocks * BLOCK_TOKENS, costs=TIGHT)


@pytest.mark.parametrize(("ranks", "lag_steps"), [(1, 0), (2, 2)])
def test_of_calls_that_leave_at_once_those_are_computed_again_for_which_the_link_would_be_waited_for(
    ranks: int, lag_steps: int
) -> None:
    sizes: dict[str, Any] = {"blocks": 36, "seats": 8, "ranks": ranks, "lag_steps": lag_steps}
    engine = SwapEngine(**sizes, switchyard={"policy": "plas"}, kv_transfer=through_ring(10))
    draw = random.Random(4)
    for call in range(6):
        xargs = ticket(f"p{call}", service_us=5_000_000)
        engine.add(f"c{call}", prompt=prompt(draw, 106), output=4, xargs=xargs)
    engine.step()
    for call in range(6):
        engine.preempt(f"c{call}")
    engine.add("other", prompt=prompt(draw, 34 * BLOCK_TOKENS), output=2, xargs=ticket("other"))
    while not engine.orders[-1].out:
        engine.step()
    # The third waits for two of its four blocks, which is worth it, and the others for all.
    assert [len(out.block_ids) for out in engine.orders[-1].out] == [4, 4, 4]
    assert (engine.swap.declined, engine.swap.leaving_blocks) == (3, 0 if lag_steps == 0 else 12)
    ended(engine)
    assert engine.swap.leaving_blocks == 0


@pytest.mark.parametrize(("ring_blocks", "images"), [(7, 1), (4, 1), (1, 0)])
def test_a_call_larger_than_the_ring_is_swapped_if_waiting_for_the_rest_is_worth_it(
    ring_blocks: int, images: int
) -> None:
    engine = SwapEngine(blocks=17, seats=4, kv_transfer=through_ring(ring_blocks))
    crowd_out_victim(engine)
    while engine.swap.watched_calls > 0:
        engine.step()
    assert (engine.swap.images, engine.swap.declined) == (images, 1 - images)
    ended(engine)


def test_sixteen_swaps_pass_through_a_ring_of_two_blocks() -> None:
    transfer = kv_transfer(mode="always", ring_tokens=2 * BLOCK_TOKENS, prefetch_tokens=2 * BLOCK_TOKENS)
    engine = SwapEngine(blocks=200, seats=16, kv_transfer=transfer)
    draw = random.Random(5)
    for call in range(16):
        engine.add(f"c{call}", prompt=prompt(draw, 3 * BLOCK_TOKENS), output=10)
    engine.step()
    for call in range(16):
        engine.preempt(f"c{call}")
    engine.step()
    assert len(engine.orders[-1].out) == 16
    ended(engine)
    assert engine.swap.swapped_in == 16


def staged_without_room(prefetch_blocks: int, **given: Any) -> SwapEngine:
    """`first` has a seat and waits on the device for memory, which `other` has. `second`, an image too, has no seat.

    Each image has four blocks.
    """
    transfer = kv_transfer(mode="always", prefetch_tokens=prefetch_blocks * BLOCK_TOKENS)
    engine = SwapEngine(blocks=40, seats=2, switchyard={"policy": "fcfs-program"}, kv_transfer=transfer, **given)
    draw = random.Random(6)
    rank(engine, "other", "first", "second")
    for name in ("first", "second"):
        engine.add(name, prompt=prompt(draw, 4 * BLOCK_TOKENS), output=20, xargs=ticket(name))
    engine.step()
    for name in ("first", "second"):
        engine.preempt(name)
    engine.add("other", prompt=prompt(draw, 36 * BLOCK_TOKENS), output=60, xargs=ticket("other"))
    for _ in range(8):
        engine.step()
    assert [request.request_id for request in engine.scheduler.running] == ["other"]
    return engine


def rank(engine: SwapEngine, *names: str) -> None:
    order = engine.scheduler.switchyard.order
    order.reconfigure(order.config, Indexed({name: place for place, name in enumerate(names)}), engine.clock.now_us)


def on_the_device(engine: SwapEngine) -> list[str]:
    """Calls whose images are, on every rank."""
    staged = []
    for name, image in engine.swap._images.items():
        states = [rank.connector.worker.transfers.state(str(image.id)) for rank in engine.ranks]
        if states == [ImageState.STAGED] * len(states):
            staged.append(name)
    return staged


@pytest.mark.parametrize(("ranks", "lag_steps"), [(1, 0), (2, 2)])
def test_the_room_on_the_device_goes_to_the_image_that_comes_first_in_order(ranks: int, lag_steps: int) -> None:
    engine = staged_without_room(7, ranks=ranks, lag_steps=lag_steps)
    assert on_the_device(engine) == ["first"]
    rank(engine, "other", "second", "first")
    for _ in range(6):
        engine.step()
    assert on_the_device(engine) == ["second"]
    assert engine.swap.staged_blocks == 4
    assert [orders.unstage for orders in engine.orders if orders.unstage] == [(engine.swap._images["first"].id,)]
    # It is brought back when its turn comes.
    ended(engine)
    assert engine.swap.swapped_in == 2


def test_images_keep_their_room_on_the_device_while_there_is_enough_for_all() -> None:
    engine = staged_without_room(8)
    rank(engine, "other", "second", "first")
    for _ in range(6):
        engine.step()
    assert sorted(on_the_device(engine)) == ["first", "second"]
    ended(engine)
    assert not any(orders.unstage for orders in engine.orders)


def test_an_image_larger_than_the_room_on_the_device_comes_in_all_the_same() -> None:
    engine = staged_without_room(3)
    assert (engine.swap.staged_blocks, on_the_device(engine)) == (0, [])
    ended(engine)
    assert engine.swap.swapped_in == 2


# Several ranks, and failures.


@pytest.mark.parametrize("lag_steps", [0, 2])
def test_an_image_counts_once_all_ranks_have_it(lag_steps: int) -> None:
    engine = SwapEngine(ranks=3, lag_steps=lag_steps, depth=2, blocks=60, seats=8)
    storm(engine, preemptions=200)
    engine.check_empty()
    assert engine.swap.swapped_in > 20


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
