"""Calls that are preempted on vLLM's own scheduler, for tests of the KV swap."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from .harness import BLOCK_TOKENS
from .swap_engine import SwapEngine

DEPTHS = pytest.mark.parametrize("depth", [1, 2])


def prompt(draw: random.Random, tokens: int, shared: int = 0) -> list[int]:
    return [9] * shared + [draw.randrange(3, 900) for _ in range(tokens)]


def storm(
    engine: SwapEngine,
    *,
    preemptions: int,
    calls: int = 24,
    seed: int = 1,
    at_once: int = 2,
    xargs_of: Callable[[str], dict[str, Any] | None] = lambda _: None,
) -> int:
    """Calls come and go while running ones are preempted at random, until so many were. Returns how many calls there were."""
    draw = random.Random(seed)
    scheduler = engine.scheduler
    added = 0
    left = preemptions
    for _ in range(60 * preemptions):
        while left > 0 and len(scheduler.requests) < calls:
            added += 1
            shared = BLOCK_TOKENS * draw.randrange(3)
            name = f"c{added}"
            tokens = prompt(draw, draw.randint(5, 150), shared)
            engine.add(name, prompt=tokens, output=draw.randint(1, 60), xargs=xargs_of(name))
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
