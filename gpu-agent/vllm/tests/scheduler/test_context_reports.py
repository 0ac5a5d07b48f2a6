"""What the agent hears of contexts of programs whose tools run, and what it says of them."""

from __future__ import annotations

from typing import Any

import pytest

from switchyard_vllm.mailbox import LEFT_MAX, Mailbox

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
    xargs,
)
from .harness import BLOCK_TOKENS
from .loads import ticket
from .swap_engine import SwapEngine, kv_transfer


def records(engine: SwapEngine) -> dict[str, dict[str, Any]]:
    return {one.request_id: one.as_dict() for one in engine.scheduler.switchyard_sink.take()}


def leaves(engine: SwapEngine, program: str) -> None:
    """The agent says that the program goes on elsewhere. It is heard before the next step."""
    engine.scheduler.switchyard_meter.mailbox.leave(program)
    run(engine, f"beside-{len(engine.play.ended)}", text(40, 1), "beside", tool_us=None)


def test_a_record_says_what_was_decided_and_by_which_wastes() -> None:
    engine = SwapEngine(blocks=BLOCKS, switchyard={"policy": "lamps"}, kv_transfer=kv_transfer(costs=COSTS))
    leave(engine, 4, tool_us=50)
    leave(engine, 4, program="q", tool_us=100 * SECOND_US)
    heard = records(engine)
    assert heard["p-1"]["handled"]["handling"] == "preserve"
    long = heard["q-1"]["handled"]
    assert (long["handling"], long["reason"]) == ("swap", "least_waste")
    waste = long["waste"]
    assert 0 < waste["swap"] < min(waste["discard"], waste["preserve"])
    # Bytes of what it was expected to have, for as long as its tool is expected to run.
    costs = engine.scheduler.switchyard.memory.current.costs
    context_tokens = len(text(1, 4)) + 3
    assert waste["preserve"] == round(100 * context_tokens * costs.kv_bytes_per_token)


def test_a_record_says_why_where_there_was_no_choice_or_no_forecast() -> None:
    engine = SwapEngine(blocks=BLOCKS, switchyard={"policy": "vllm-preserve"})
    leave(engine)
    assert records(engine)["p-1"]["handled"]["reason"] == "only_choice"
    engine = SwapEngine(blocks=BLOCKS, switchyard={"policy": "infercept"})
    engine.add("p-1", prompt=text(1, 4), output=3, xargs=ticket("p"))
    settle(engine)
    assert records(engine)["p-1"]["handled"]["reason"] == "not_foreseen"


@pytest.mark.parametrize("policy", ["plas", "lamps"])
def test_a_record_says_nothing_where_nothing_was_decided(policy: str) -> None:
    engine = SwapEngine(blocks=BLOCKS, switchyard={"policy": policy})
    leave(engine, tool_us=None if policy == "lamps" else SECOND_US)
    assert "handled" not in records(engine)["p-1"]


def test_a_call_whose_context_cannot_be_handled_has_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = SwapEngine(blocks=BLOCKS, switchyard=handling("preserve"))
    engine.add("p-1", prompt=text(1, 4), output=3, xargs=xargs("p"))
    engine.step()
    monkeypatch.setattr(engine.scheduler.switchyard.tools, "ended", lambda *_: 1 / 0)
    engine.is_ours = False
    settle(engine)
    heard = records(engine)["p-1"]
    assert heard["outcome"] == "length" and "handled" not in heard
    assert engine.scheduler.switchyard_failures == 1


@pytest.mark.parametrize("allowed", ["preserve", "swap"])
@pytest.mark.parametrize("prefix_cache", [True, False])
def test_a_program_that_goes_on_elsewhere_leaves_nothing(allowed: str, prefix_cache: bool) -> None:
    engine = SwapEngine(blocks=BLOCKS, switchyard=handling(allowed), prefix_cache=prefix_cache)
    prompt = leave(engine)
    if allowed == "swap":
        churn(engine)
        assert engine.swap.images == 1
    leaves(engine, "t/p")
    assert (counts(engine)["away"], counts(engine)["expired"]) == (0, 1)
    expect_nothing_pinned(engine)
    engine.check_empty()
    assert computed_on_return(engine, prompt) == len(prompt)


def test_what_other_programs_use_of_it_stays() -> None:
    engine = SwapEngine(blocks=BLOCKS, switchyard=handling("preserve"))
    prompt = leave(engine, 8)
    # It finds the first half, and pins it too.
    shared = prompt[: 4 * BLOCK_TOKENS]
    run(engine, "q-1", [*shared, *text(2, 2)], "q")
    leaves(engine, "t/p")
    begun = len(engine.play.steps)
    run(engine, "q-2", [*shared, *text(2, 2)], "q", tool_us=None)
    assert sum(step.get("q-2", 0) for step in engine.play.steps[begun:]) - 2 <= BLOCK_TOKENS + 5
    expect_nothing_pinned(engine)


def test_a_program_that_is_back_or_was_never_here_is_left_alone() -> None:
    engine = SwapEngine(blocks=BLOCKS, switchyard=handling("preserve"))
    prompt = leave(engine)
    engine.scheduler.switchyard_meter.mailbox.leave("t/nobody")
    engine.scheduler.switchyard_meter.mailbox.leave("t/p")
    assert computed_on_return(engine, prompt) <= BLOCK_TOKENS + 5
    assert counts(engine)["expired"] == 0
    expect_nothing_pinned(engine)


def test_an_engine_that_takes_no_step_remembers_a_bounded_number_of_programs() -> None:
    mailbox = Mailbox()
    for index in range(LEFT_MAX + 1):
        mailbox.leave(f"p{index}")
    left = mailbox.left()
    assert (len(left), left[0], left[-1]) == (LEFT_MAX, "p1", f"p{LEFT_MAX}")
    assert not mailbox.left()
