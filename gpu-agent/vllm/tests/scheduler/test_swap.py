"""The KV swap on vLLM's own scheduler: what is restored is what was there, and nothing is left behind.

The workers of swap_engine.py compare all KV that a step reads with what it must be.
"""

from __future__ import annotations

import random

import pytest
from vllm.v1.request import RequestStatus

from switchyard_vllm import ProgramAwareScheduler

from .harness import BLOCK_TOKENS, Engine
from .swap_engine import SwapEngine, kv_transfer
from .swap_plays import DEPTHS, ended, prompt, storm, swapped_out


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
    image = engine.swap._held.by_name["victim"]
    assert image.tokens == stable
    ended(engine)


def test_records_say_what_was_swapped_and_what_was_computed_again() -> None:
    engine = swapped_out(prefix_cache=False)
    ended(engine)
    taken = {record.request_id: record for record in engine.scheduler.switchyard_sink.take()}
    records = {name: record.measurement for name, record in taken.items()}
    victim = records["victim"]
    ((from_us, to_us, moved),) = taken["victim"].pauses
    assert moved
    assert 0 < from_us < to_us < victim.duration_us
    assert taken["other"].pauses == ()
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
    ((_, _, moved),) = record.pauses
    assert not moved


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
