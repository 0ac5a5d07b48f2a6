"""Contexts of several tenants on vLLM's own scheduler: none loses what it has to another that takes more for its weight."""

from __future__ import annotations

import random

from switchyard_vllm.swap.held_images import HeldImages
from switchyard_vllm.swap.image import Image, ImageOwner
from switchyard_vllm.swap.slab_pool import SLAB_BLOCKS
from switchyard_vllm.swap.swap_rules import ALWAYS

from .contexts import BLOCKS, churn, computed_on_return, counts, handling, leave, run, settle, text
from .harness import BLOCK_TOKENS
from .swap_engine import SwapEngine, kv_transfer


def swaps_many(engine: SwapEngine, tenant: str, blocks: int, *, weight: float = 1) -> None:
    """More contexts than there is room for images, one after another."""
    for index in range(8):
        run(engine, f"{tenant}{index}", text(20 + index, blocks), f"{tenant}{index}", tenant=tenant, weight=weight)
        churn(engine, 3)


def test_a_tenant_that_leaves_many_contexts_drops_its_own_images() -> None:
    # Room for about three of them.
    store = kv_transfer(arena_tokens=4 * 16 * BLOCK_TOKENS)
    engine = SwapEngine(blocks=BLOCKS, switchyard=handling("swap"), kv_transfer=store)
    prompt = leave(engine, 8)
    churn(engine)
    # Larger images are worth more.
    swaps_many(engine, "u", 16)
    assert counts(engine)["displaced"] > 0, "there is too little room"
    assert computed_on_return(engine, prompt) <= BLOCK_TOKENS + 5
    settle(engine)


def test_the_tenant_that_has_most_for_its_weight_makes_room() -> None:
    store = kv_transfer(arena_tokens=4 * 16 * BLOCK_TOKENS)
    engine = SwapEngine(blocks=BLOCKS, switchyard=handling("swap"), kv_transfer=store)
    swaps_many(engine, "u", 16)
    displaced = counts(engine)["displaced"]
    prompt = leave(engine, 8)
    churn(engine)
    assert counts(engine)["displaced"] == displaced + 1
    assert computed_on_return(engine, prompt) <= BLOCK_TOKENS + 5


def image(number: int, owner: ImageOwner, slabs: int = 1) -> Image:
    blocks = slabs * SLAB_BLOCKS
    return Image(number, f"c{number}", 0, blocks, blocks * BLOCK_TOKENS, owner)


def test_no_tenant_is_brought_below_the_share_of_the_one_that_asks() -> None:
    draw = random.Random(4)
    for _ in range(300):
        owners = [ImageOwner(f"t{index}", draw.choice([0.5, 1, 4])) for index in range(4)]
        held = HeldImages(1000, BLOCK_TOKENS)
        for number in range(draw.randrange(30)):
            held.add(image(number, draw.choice(owners), draw.randint(1, 3)))
        asks = draw.choice(owners)
        slabs = draw.randint(1, 4)
        used = dict.fromkeys(owners, 0)
        for known in held.by_name.values():
            used[known.owner] += known.blocks // SLAB_BLOCKS
        share = (used[asks] + slabs) / asks.weight
        may_go = held.droppable(asks, slabs * SLAB_BLOCKS, ALWAYS, lambda _: True)
        gone = dict.fromkeys(owners, 0)
        for one in may_go:
            owner = held.by_id[one.id].owner
            assert owner == asks or (used[owner] - gone[owner]) / owner.weight > share
            gone[owner] += one.room
        assert gone.pop(asks) == used[asks]
        for owner, slabs_gone in gone.items():
            assert slabs_gone == used[owner] or (used[owner] - slabs_gone) / owner.weight <= share
