"""Programs whose tools run, on vLLM's own scheduler: what tests of their contexts do, and look at."""

from __future__ import annotations

import json
import random
from typing import Any

from .harness import BLOCK_TOKENS, Engine
from .loads import ticket

#: 29 blocks for calls.
BLOCKS = 30
SECOND_US = 1_000_000

#: Moving a context takes longer than a tool of some microseconds.
COSTS: dict[str, float] = {
    "base_us": 1000,
    "save_us_per_token": 0,
    "restore_us_per_token": 0,
    "recompute_us_per_token": 700,
}


def text(seed: int, blocks: int) -> list[int]:
    draw = random.Random(seed)
    return [draw.randrange(3, 900) for _ in range(blocks * BLOCK_TOKENS + 5)]


def xargs(program: str, *, tool_us: float | None = SECOND_US, **given: Any) -> dict[str, Any]:
    tools = [] if tool_us is None else [[1, tool_us, 9]]
    return {**ticket(program, **given), "switchyard_forecast": json.dumps([3, tools, 1])}


def handling(*allowed: str) -> dict[str, Any]:
    return {"policy": "infercept", "handling": list(allowed)}


def run(engine: Engine, name: str, prompt: list[int], program: str, **given: Any) -> None:
    engine.add(name, prompt=prompt, output=3, xargs=xargs(program, **given))
    until(engine, name)


def until(engine: Engine, name: str) -> None:
    for _ in range(500):
        if name in engine.play.ended:
            return
        engine.step() if engine.scheduler.has_unfinished_requests() else engine.update()
    raise AssertionError(f"{name} does not end")


def leave(engine: Engine, blocks: int = 16, *, program: str = "p", **given: Any) -> list[int]:
    """The program's call has ended in a tool. Returns what its next one begins with."""
    prompt = text(1, blocks)
    run(engine, f"{program}-1", prompt, program, **given)
    return prompt


def churn(engine: Engine, calls: int = 6, blocks: int = 9) -> None:
    """Calls of programs of their own, one after another: together they take every free block several times."""
    for _ in range(calls):
        name = f"other-{len(engine.play.ended)}"
        run(engine, name, text(100 + len(engine.play.ended), blocks), name, tool_us=None)


def computed_on_return(engine: Engine, prompt: list[int], name: str = "p-2") -> int:
    """Tokens that the program's next call computes of its prompt."""
    begun = len(engine.play.steps)
    run(engine, name, prompt, "p", tool_us=None)
    return sum(step.get(name, 0) for step in engine.play.steps[begun:]) - 2


def counts(engine: Engine) -> dict[str, Any]:
    counted: dict[str, Any] = engine.scheduler.switchyard.tools.counts()
    return counted


def settle(engine: Engine) -> None:
    while engine.scheduler.has_unfinished_requests() or engine.pending:
        engine.step() if engine.scheduler.has_unfinished_requests() else engine.update()


def expect_nothing_pinned(engine: Engine) -> None:
    settle(engine)
    pool = engine.scheduler.kv_cache_manager.block_pool
    assert pool.get_num_free_blocks() == pool.num_gpu_blocks - 1
    assert not engine.scheduler.switchyard.tools.pinned.all_pins
