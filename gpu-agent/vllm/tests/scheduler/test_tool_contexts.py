"""Contexts of programs whose tools run, on vLLM's own scheduler: what is done with them, and that nothing is left behind.

The workers of swap_engine.py compare all KV that a step reads with what it must be.
"""

from __future__ import annotations

import random

import pytest

from switchyard_vllm import ProgramAwareScheduler, tool_contexts
from switchyard_vllm.handling.waste import PRESERVE_US_MAX
from switchyard_vllm.tool_contexts import IMAGE_US_MAX

from .contexts import (
    BLOCKS,
    COSTS,
    SECOND_US,
    churn,
    computed_on_return,
    counts,
    expect_nothing_pinned,
    handling,
    leave,
    run,
    settle,
    text,
    until,
    xargs,
)
from .harness import BLOCK_TOKENS, Engine
from .swap_engine import SwapEngine, kv_transfer

PREFIX_CACHE = pytest.mark.parametrize("prefix_cache", [True, False])
DEPTHS = pytest.mark.parametrize("depth", [1, 2])


@DEPTHS
@PREFIX_CACHE
def test_a_preserved_context_is_found_whatever_else_ran(prefix_cache: bool, depth: int) -> None:
    engine = SwapEngine(blocks=BLOCKS, switchyard=handling("preserve"), prefix_cache=prefix_cache, depth=depth)
    prompt = leave(engine)
    churn(engine)
    assert computed_on_return(engine, prompt) <= BLOCK_TOKENS + 5
    of = counts(engine)["preserve"]
    assert (of["decided"], of["returned"]) == (1, 1)
    assert of["cached_tokens"] >= 0.95 * of["context_tokens"] > 0
    expect_nothing_pinned(engine)


@PREFIX_CACHE
def test_a_discarded_context_is_gone(prefix_cache: bool) -> None:
    engine = SwapEngine(blocks=BLOCKS, switchyard={"policy": "vllm-discard"}, prefix_cache=prefix_cache)
    prompt = leave(engine)
    assert computed_on_return(engine, prompt) == len(prompt)
    of = counts(engine)["discard"]
    assert (of["decided"], of["returned"], of["cached_tokens"]) == (1, 1, 0)
    expect_nothing_pinned(engine)


@DEPTHS
@PREFIX_CACHE
def test_a_swapped_context_comes_back_from_its_image(prefix_cache: bool, depth: int) -> None:
    engine = SwapEngine(blocks=BLOCKS, switchyard=handling("swap"), prefix_cache=prefix_cache, depth=depth)
    prompt = leave(engine)
    churn(engine)
    assert engine.swap.swapped_out == 1
    assert computed_on_return(engine, prompt) <= BLOCK_TOKENS + 5
    assert engine.swap.swapped_in == 1
    of = counts(engine)["swap"]
    assert of["cached_tokens"] >= 0.95 * of["context_tokens"] > 0
    settle(engine)
    engine.check_empty()


def test_without_a_tool_nothing_is_kept() -> None:
    engine = SwapEngine(blocks=BLOCKS, switchyard=handling("preserve"))
    leave(engine, tool_us=None)
    assert counts(engine)["preserve"]["decided"] == 0
    expect_nothing_pinned(engine)


def test_the_least_waste_decides() -> None:
    engine = SwapEngine(blocks=BLOCKS, switchyard={"policy": "lamps"}, kv_transfer=kv_transfer(costs=COSTS))
    leave(engine, 4, tool_us=50)
    leave(engine, 4, program="q", tool_us=100 * SECOND_US)
    assert counts(engine)["preserve"]["decided"] == 1
    assert counts(engine)["swap"]["decided"] == 1


def test_a_pin_gives_way_to_a_call_that_waits_and_becomes_an_image() -> None:
    options = handling("preserve", "swap")
    engine = SwapEngine(blocks=BLOCKS, switchyard=options, kv_transfer=kv_transfer(costs=COSTS))
    prompt = leave(engine, tool_us=1)
    assert counts(engine)["preserve"]["decided"] == 1
    engine.add("large", prompt=text(7, 20), output=2, xargs=xargs("large", tool_us=None))
    engine.step()
    assert "large" in engine.play.steps[-1], "admission does not wait for a pin"
    assert counts(engine)["relieved"] == 1
    until(engine, "large")
    assert computed_on_return(engine, prompt) <= BLOCK_TOKENS + 5


def test_a_pin_that_cannot_be_swapped_gives_way_as_well() -> None:
    engine = Engine(ProgramAwareScheduler, blocks=BLOCKS, switchyard={"policy": "vllm-preserve"})
    leave(engine)
    engine.add("large", prompt=text(7, 20), output=2, xargs=xargs("large", tool_us=None))
    engine.step()
    assert "large" in engine.play.steps[-1]
    expect_nothing_pinned(engine)


def test_a_running_call_takes_the_room_of_a_pin_before_vllm_preempts() -> None:
    engine = Engine(ProgramAwareScheduler, blocks=BLOCKS, switchyard={"policy": "vllm-preserve"})
    leave(engine, 20)
    engine.add("grows", prompt=text(8, 7), output=200, xargs=xargs("grows", tool_us=None))
    until(engine, "grows")
    assert counts(engine)["relieved"] == 1
    status = engine.scheduler.switchyard.counts()
    assert (status["preemptions_by_vllm"], status["preemptions_for_memory"]) == (0, 0)


def test_the_context_that_is_needed_last_gives_way_first() -> None:
    engine = Engine(ProgramAwareScheduler, blocks=BLOCKS, switchyard={"policy": "vllm-preserve"})
    soon = leave(engine, 8, tool_us=SECOND_US)
    late = text(2, 8)
    run(engine, "late-1", late, "late", tool_us=60 * SECOND_US)
    run(engine, "fills", text(3, 16), "fills", tool_us=None)
    assert counts(engine)["relieved"] == 1
    assert computed_on_return(engine, soon) <= BLOCK_TOKENS + 5


def test_a_tenant_that_lies_about_its_tools_loses_its_own_pins_first() -> None:
    engine = SwapEngine(blocks=BLOCKS, switchyard=handling("preserve"))
    for seed, program in enumerate(("a", "b", "c")):
        run(engine, f"{program}-1", text(10 + seed, 4), program, tool_us=1, tenant="liar")
    prompt = leave(engine, 4)
    run(engine, "other", text(2, 18), "other", tool_us=None)
    assert counts(engine)["relieved"] >= 1
    assert computed_on_return(engine, prompt) <= BLOCK_TOKENS + 5


def test_the_pin_ends_when_the_call_is_admitted_and_not_before() -> None:
    engine = Engine(ProgramAwareScheduler, seats=1, blocks=BLOCKS, switchyard={"policy": "vllm-preserve"})
    prompt = leave(engine)
    engine.add("runs", prompt=text(5, 4), output=40, xargs=xargs("a", tool_us=None))
    engine.step()
    engine.add(
        "p-2", prompt=prompt, output=2, xargs={**xargs("p"), "switchyard_opened_at_ms": 9**9, "switchyard_tie": 1}
    )
    pinned = engine.scheduler.switchyard.tools.pinned
    while "p-2" not in engine.play.steps[-1]:
        assert pinned.blocks == 16
        engine.step()
    assert pinned.blocks == 0


@pytest.mark.parametrize("swaps", [True, False])
def test_a_call_that_goes_before_it_is_admitted_leaves_nothing(swaps: bool) -> None:
    engine = SwapEngine(seats=1, blocks=BLOCKS, switchyard=handling("swap" if swaps else "preserve"))
    prompt = leave(engine)
    churn(engine, 4)
    engine.add("runs", prompt=text(5, 4), output=40, xargs=xargs("a", tool_us=None))
    engine.step()
    engine.add("p-2", prompt=prompt, output=2, xargs=xargs("p"))
    engine.abort("p-2")
    settle(engine)
    engine.check_empty()


def test_a_tool_that_lasts_is_decided_again() -> None:
    engine = SwapEngine(blocks=BLOCKS, switchyard=handling("preserve", "discard"))
    leave(engine, tool_us=1000)
    assert counts(engine)["preserve"]["decided"] == 1
    engine.add("runs", prompt=text(5, 2), output=400, xargs=xargs("a", tool_us=None))
    for _ in range(300):
        engine.step()
        if counts(engine)["revised"]:
            break
    assert counts(engine)["revised"] == 1
    assert not engine.scheduler.switchyard.tools.pinned.all_pins


def test_a_pin_never_outlives_its_bound() -> None:
    engine = Engine(ProgramAwareScheduler, blocks=BLOCKS, switchyard={"policy": "vllm-preserve"})
    leave(engine, tool_us=10**12)
    engine.add("runs", prompt=text(5, 2), output=40, xargs=xargs("a", tool_us=None))
    engine.clock.now_us += PRESERVE_US_MAX - 2 * SECOND_US
    engine.step()
    assert engine.scheduler.switchyard.tools.pinned.blocks == 16
    engine.clock.now_us += 2 * SECOND_US
    engine.step()
    assert engine.scheduler.switchyard.tools.pinned.blocks == 0


def test_an_image_is_not_kept_for_ever() -> None:
    engine = SwapEngine(blocks=BLOCKS, switchyard=handling("swap"))
    leave(engine)
    churn(engine)
    assert engine.swap.images == 1
    engine.clock.now_us += IMAGE_US_MAX
    churn(engine, 1)
    assert (engine.swap.images, counts(engine)["expired"]) == (0, 1)
    settle(engine)
    engine.check_empty()


def test_an_image_is_brought_back_shortly_before_its_tool_is_expected_to_return() -> None:
    engine = SwapEngine(blocks=BLOCKS, switchyard=handling("swap"))
    prompt = leave(engine, tool_us=30 * SECOND_US)
    churn(engine)
    assert (engine.swap.swapped_out, engine.swap.staged_blocks) == (1, 0)
    context = engine.scheduler.switchyard.tools._contexts["t/p"]
    back_us = context.since_us + 30 * SECOND_US
    engine.clock.now_us = back_us - 3 * SECOND_US
    engine.add("runs", prompt=text(5, 2), output=300, xargs=xargs("a", tool_us=None))
    for _ in range(300):
        if engine.swap.staged_blocks:
            break
        engine.step()
    assert back_us - SECOND_US < engine.clock.now_us < back_us
    assert counts(engine)["prefetched"] == 1
    assert computed_on_return(engine, prompt) <= BLOCK_TOKENS + 5


@PREFIX_CACHE
@pytest.mark.parametrize("allowed", ["preserve", "swap"])
def test_only_what_the_prompt_goes_on_from_is_used(allowed: str, prefix_cache: bool) -> None:
    engine = SwapEngine(blocks=BLOCKS, switchyard=handling(allowed), prefix_cache=prefix_cache)
    prompt = leave(engine)
    churn(engine)
    rewritten = prompt[: 10 * BLOCK_TOKENS] + text(9, 6)
    assert computed_on_return(engine, rewritten) == len(rewritten) - 10 * BLOCK_TOKENS
    again = leave(engine, program="q")
    churn(engine, 2)
    run(engine, "q-2", [1, *again], "q", tool_us=None)
    settle(engine)
    engine.check_empty()


@PREFIX_CACHE
def test_another_tenant_of_the_same_text_finds_nothing(prefix_cache: bool) -> None:
    engine = SwapEngine(blocks=BLOCKS, switchyard=handling("preserve"), prefix_cache=prefix_cache)
    prompt = text(1, 16)
    engine.add("p-1", prompt=prompt, output=3, salt="one", xargs=xargs("p"))
    until(engine, "p-1")
    begun = len(engine.play.steps)
    engine.add("x", prompt=prompt, output=3, salt="other", xargs=xargs("p", tenant="u"))
    until(engine, "x")
    assert sum(step.get("x", 0) for step in engine.play.steps[begun:]) - 2 == len(prompt)


def test_a_reset_of_the_prefix_cache_and_another_policy_end_all_pins() -> None:
    for end in ("reset", "policy"):
        engine = SwapEngine(blocks=BLOCKS, switchyard=handling("preserve"))
        leave(engine)
        if end == "reset":
            assert engine.scheduler.reset_prefix_cache()
        else:
            engine.scheduler.switchyard_meter.mailbox.ask(1, {"policy": "plas"})
            engine.add("runs", prompt=text(5, 2), output=2, xargs=xargs("a", tool_us=None))
        expect_nothing_pinned(engine)


def test_a_failure_of_the_plug_in_ends_all_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(ProgramAwareScheduler, blocks=BLOCKS, switchyard={"policy": "vllm-preserve"})
    leave(engine)
    monkeypatch.setattr(engine.scheduler.switchyard.order, "decide", lambda _: 1 / 0)
    engine.is_ours = False
    engine.add("runs", prompt=text(5, 2), output=2, xargs=xargs("a", tool_us=None))
    settle(engine)
    pool = engine.scheduler.kv_cache_manager.block_pool
    assert pool.get_num_free_blocks() == pool.num_gpu_blocks - 1


def test_contexts_and_pinned_blocks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_contexts, "CONTEXTS_MAX", 3)
    engine = Engine(ProgramAwareScheduler, blocks=BLOCKS, switchyard={"policy": "vllm-preserve"})
    for index in range(4):
        run(engine, f"c{index}", text(20 + index, 2), f"p{index}")
    assert (counts(engine)["away"], counts(engine)["expired"]) == (3, 1)
    run(engine, "large", text(30, 20), "large")
    assert engine.scheduler.switchyard.tools.pinned.blocks <= tool_contexts.PINNED_SHARE_MAX * BLOCKS


@DEPTHS
@PREFIX_CACHE
@pytest.mark.parametrize("policy", ["lamps", "infercept", "learned-memory", "vllm-preserve", "vllm-discard"])
def test_programs_with_tools_at_random_end_and_leave_nothing(policy: str, prefix_cache: bool, depth: int) -> None:
    engine = SwapEngine(blocks=60, seats=4, switchyard={"policy": policy}, prefix_cache=prefix_cache, depth=depth)
    draw = random.Random(policy)
    texts = {f"p{index}": text(index, draw.randint(3, 16)) for index in range(10)}
    left = dict.fromkeys(texts, 4)
    coming = {name: draw.randrange(SECOND_US) for name in texts}
    running: dict[str, str] = {}
    while left:
        for name in [one for one, at_us in coming.items() if at_us <= engine.clock.now_us]:
            del coming[name]
            lease = f"{name}-{left[name]}"
            running[lease] = name
            tool_us = draw.choice([None, 1000, SECOND_US, 60 * SECOND_US])
            engine.add(lease, prompt=texts[name], output=draw.randint(1, 40), xargs=xargs(name, tool_us=tool_us))
            if draw.random() < 0.05:
                engine.abort(lease)
                del running[lease], left[name]
        if engine.scheduler.has_unfinished_requests():
            engine.step()
        elif engine.pending:
            engine.update()
        elif coming:
            engine.clock.now_us = max(engine.clock.now_us, min(coming.values()))
        for lease in [one for one in running if one in engine.play.ended]:
            name = running.pop(lease)
            left[name] -= 1
            texts[name] = texts[name] + engine.play.tokens[lease] + [draw.randrange(3, 900) for _ in range(9)]
            if left[name] == 0:
                del left[name]
            else:
                coming[name] = engine.clock.now_us + draw.choice([1000, SECOND_US, 5 * SECOND_US])
    engine.scheduler.switchyard.tools.clear()
    settle(engine)
    engine.check_empty()
    of = counts(engine)
    assert sum(of[name]["decided"] for name in ("preserve", "swap", "discard")) > 10
