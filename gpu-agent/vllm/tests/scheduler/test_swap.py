"""The KV swap on vLLM's own scheduler: what is restored is what was there, and nothing is left behind."""

from __future__ import annotations

import random

import pytest

from .harness import BLOCK_TOKENS
from .swap_engine import SwapEngine, kv_transfer

DEPTHS = pytest.mark.parametrize("depth", [1, 2])
CACHES = pytest.mark.parametrize("prefix_cache", [True, False])


def prompt(draw: random.Random, tokens: int, shared: int = 0) -> list[int]:
    return [9] * shared + [draw.randrange(3, 900) for _ in range(tokens)]


def storm(engine: SwapEngine, *, preemptions: int, calls: int = 24, seed: int = 1) -> dict[str, list[int]]:
    """Calls come and go while running ones are preempted at random, until so many were."""
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
        for name in draw.sample(running, min(left, len(running), draw.randrange(3))):
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
    engine.check_empty()
    return engine.play.tokens


@DEPTHS
@CACHES
@pytest.mark.parametrize("mode", ["auto", "always"])
def test_a_storm_of_preemptions_restores_what_was_there_and_leaves_nothing(
    depth: int, prefix_cache: bool, mode: str
) -> None:
    engine = SwapEngine(depth=depth, prefix_cache=prefix_cache, blocks=60, seats=8, kv_transfer=kv_transfer(mode=mode))
    storm(engine, preemptions=600)
    assert engine.swap.swapped_in > 50
