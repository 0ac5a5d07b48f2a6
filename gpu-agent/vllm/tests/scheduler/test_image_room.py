"""Whose images make room in a full arena, on vLLM's own scheduler: those of programs that are expected last.

A program ends without a word to the engine. It looks like one whose tool takes very long.
"""

from __future__ import annotations

from typing import Any

import pytest

from switchyard_vllm.swap.slab_pool import SLAB_BLOCKS

from .contexts import BLOCKS, SECOND_US, churn, computed_on_return, counts, leave, run, settle, text, xargs
from .harness import BLOCK_TOKENS
from .swap_engine import SwapEngine, kv_transfer
from .swap_plays import storm

CONTEXT_BLOCKS = 2 * SLAB_BLOCKS
#: The last block, with the tokens that the call wrote and those behind the context.
REST_TOKENS = BLOCK_TOKENS + 5


def engine_for(contexts: int, policy: str = "infercept") -> SwapEngine:
    """With an arena for so many contexts."""
    store = kv_transfer(arena_tokens=contexts * CONTEXT_BLOCKS * BLOCK_TOKENS)
    switchyard: dict[str, Any] = {"policy": policy, "handling": ["swap"]}
    return SwapEngine(blocks=BLOCKS, switchyard=switchyard, kv_transfer=store)


def end_programs(engine: SwapEngine, count: int) -> None:
    """Programs whose last call has ended: their contexts become images, and none of them comes back."""
    for index in range(count):
        run(engine, f"gone{index}", text(40 + index, CONTEXT_BLOCKS), f"gone{index}")
        churn(engine, 4)


def expect_nothing_left(engine: SwapEngine) -> None:
    engine.scheduler.switchyard.tools.clear()
    settle(engine)
    engine.check_empty()


@pytest.mark.parametrize("policy", ["infercept", "lamps", "learned-memory"])
def test_images_of_programs_that_have_ended_keep_no_room_from_others(policy: str) -> None:
    engine = engine_for(3, policy)
    end_programs(engine, 5)
    assert engine.swap.images == 3
    prompt = leave(engine, CONTEXT_BLOCKS)
    churn(engine)
    assert computed_on_return(engine, prompt) <= REST_TOKENS
    of = counts(engine)
    assert (of["swap"]["decided"], of["displaced"]) == (6, 3)
    expect_nothing_left(engine)


@pytest.mark.parametrize("policy", ["infercept", "learned-memory"])
def test_nor_from_calls_that_are_preempted(policy: str) -> None:
    engine = engine_for(2, policy)
    end_programs(engine, 3)
    assert (engine.swap.images, engine.swap.swapped_in) == (2, 0)
    # Of the same tenant, and without tools.
    storm(engine, preemptions=40, xargs_of=lambda call: xargs(call, tool_us=None))
    assert engine.swap.swapped_in > 0
    expect_nothing_left(engine)


def test_the_program_that_is_expected_last_makes_room_and_one_that_is_expected_sooner_does_not() -> None:
    engine = engine_for(2)
    prompts: dict[str, list[int]] = {}
    for program, tool_s in (("soon", 1000), ("late", 3000), ("new", 2000), ("last", 4000)):
        prompts[program] = text(len(prompts), CONTEXT_BLOCKS)
        run(engine, f"{program}-1", prompts[program], program, tool_us=tool_s * SECOND_US)
        churn(engine, 4)
    assert (engine.swap.images, counts(engine)["displaced"]) == (2, 1)
    kept = {}
    for program, prompt in prompts.items():
        begun = len(engine.play.steps)
        run(engine, f"{program}-2", prompt, program, tool_us=None)
        kept[program] = sum(step.get(f"{program}-2", 0) for step in engine.play.steps[begun:]) - 2 <= REST_TOKENS
    assert kept == {"soon": True, "late": False, "new": True, "last": False}
    expect_nothing_left(engine)
