"""The room of the KV swap on vLLM's own scheduler: the arena on the host, the ring through which images leave, the device."""

from __future__ import annotations

import random
from typing import Any

import pytest

from switchyard_vllm.swap.orders import CopyCosts
from switchyard_vllm.swap.transfers import ImageState

from .fakes import Indexed
from .harness import BLOCK_TOKENS
from .loads import ticket
from .swap_engine import SwapEngine, beside_another, kv_transfer
from .swap_plays import crowd_out_victim, ended, prompt, storm


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
    status = engine.scheduler.switchyard_meter.status()
    assert (status["swap_failed"], status["swap_declined"]) == (False, 1 - images)
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
    for name, image in engine.swap._held.by_name.items():
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
    assert [orders.unstage for orders in engine.orders if orders.unstage] == [(engine.swap._held.by_name["first"].id,)]
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
