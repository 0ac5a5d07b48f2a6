"""Cached prefixes in the order: what vLLM would give a call counts for it, and asking changes nothing."""

import pytest

from switchyard_vllm import ProgramAwareScheduler, residency

from .harness import BLOCK_TOKENS, Engine
from .loads import ticket

#: Of eight blocks and a bit.
PROMPT = [*range(3, 3 + 8 * BLOCK_TOKENS + 5)]
CACHED_TOKENS = 8 * BLOCK_TOKENS
PLAS = {"policy": "plas", "quantum_s": 0.01, "levels": 4}


def resident(engine: Engine, name: str) -> int:
    return int(engine.scheduler.switchyard.calls[name].state.resident_tokens)


def running(engine: Engine) -> set[str]:
    return {request.request_id for request in engine.scheduler.running}


def other(first: int, blocks: int) -> list[int]:
    return [first, *range(3, 3 + blocks * BLOCK_TOKENS)]


def test_a_call_brings_the_prefix_that_is_cached_when_it_comes_and_then_what_is_computed_of_it() -> None:
    engine = Engine(ProgramAwareScheduler, switchyard=PLAS, step_tokens=64)
    engine.add("first", prompt=PROMPT, output=2, xargs=ticket("p"))
    assert resident(engine, "first") == 0
    engine.step()
    assert resident(engine, "first") == 64
    engine.run()
    engine.add("next", prompt=PROMPT, output=4, xargs=ticket("p"))
    assert resident(engine, "next") == CACHED_TOKENS
    engine.step()
    assert resident(engine, "next") == len(PROMPT)
    engine.run()


def test_without_a_prefix_cache_nothing_is_at_hand() -> None:
    engine = Engine(ProgramAwareScheduler, switchyard=PLAS, prefix_cache=False)
    engine.add("first", prompt=PROMPT, output=2, xargs=ticket("p"))
    engine.run()
    engine.add("next", prompt=PROMPT, output=2, xargs=ticket("p"))
    assert resident(engine, "next") == 0
    engine.run()


def test_a_preempted_call_has_what_stays_cached_of_it() -> None:
    engine = Engine(ProgramAwareScheduler, seats=1, switchyard=PLAS)
    engine.add("long", prompt=PROMPT, output=30, xargs=ticket("long", service_us=10**9))
    engine.step()
    assert resident(engine, "long") == len(PROMPT)
    engine.add("short", output=3, xargs=ticket("short"))
    engine.step()
    engine.step()
    assert resident(engine, "long") == CACHED_TOKENS
    engine.run()


def test_eviction_is_noticed_after_the_interval() -> None:
    engine = Engine(ProgramAwareScheduler, seats=1, blocks=15, switchyard=PLAS)
    engine.add("first", prompt=PROMPT, output=2, xargs=ticket("p"))
    engine.run()
    engine.add("runs", prompt=other(900, 10), output=60, xargs=ticket("r"))
    engine.step()
    engine.add("waits", prompt=PROMPT, output=2, xargs=ticket("p", service_us=10**9))
    before = resident(engine, "waits")
    # The call that runs grows, and takes the blocks of the prefix from its end.
    for _ in range(50):
        engine.step()
    assert "runs" in running(engine)
    _, cached_tokens, _ = engine.scheduler.kv_cache_manager.get_computed_blocks(engine.scheduler.requests["waits"])
    assert resident(engine, "waits") == cached_tokens < before
    engine.run()


def test_no_more_calls_and_blocks_are_looked_up_than_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(ProgramAwareScheduler, seats=1, switchyard=PLAS)
    for index in range(residency.WAITING_MAX + 4):
        engine.add(f"{index}", prompt=PROMPT, output=2, xargs=ticket(f"{index}"))
    engine.run([])
    looked_up: list[str] = []
    driver = engine.scheduler.switchyard
    look_up = driver.residency.resident

    def counted(request: object) -> residency.Resident:
        looked_up.append(request.request_id)  # type: ignore[attr-defined]
        found: residency.Resident = look_up(request)
        return found

    def look_again() -> list[str]:
        looked_up.clear()
        driver.residency.before_decision([], driver.residency._due_us)
        return list(looked_up)

    for index in range(residency.WAITING_MAX + 4):
        engine.add(f"again {index}", prompt=PROMPT, output=2, xargs=ticket(f"{index}"))
    monkeypatch.setattr(driver.residency, "resident", counted)
    assert len(look_again()) == residency.WAITING_MAX
    # Each finds eight blocks.
    monkeypatch.setattr(residency, "BLOCKS_MAX", 9)
    assert len(look_again()) == 2
    engine.run()


@pytest.mark.parametrize("standby", ["in_order", "resident_first"])
def test_calls_that_come_next_between_decisions_are_looked_up_too(standby: str) -> None:
    engine = Engine(ProgramAwareScheduler, seats=1, switchyard={**PLAS, "standby": standby})
    engine.add("first", prompt=PROMPT, output=2, xargs=ticket("p"))
    engine.run()
    for index in range(residency.WAITING_MAX):
        engine.add(f"{index}", prompt=other(900 + index, 1), output=2, xargs=ticket(f"{index}"))
    engine.add("last", prompt=PROMPT, output=2, xargs=ticket("p", service_us=10**9))
    assert resident(engine, "last") == CACHED_TOKENS
    engine.scheduler.reset_prefix_cache()
    driver = engine.scheduler.switchyard
    driver.residency.before_decision([], driver.residency._due_us)
    assert driver.calls["last"].state.holds_kv is (standby == "in_order")
    engine.run()


def test_a_lookup_changes_nothing_in_vllm() -> None:
    engine = Engine(ProgramAwareScheduler, switchyard=PLAS)
    engine.add("first", prompt=PROMPT, output=2, xargs=ticket("p"))
    engine.run()
    manager = engine.scheduler.kv_cache_manager

    def state() -> object:
        blocks = [
            (block.block_id, block.ref_cnt) for block in manager.block_pool.free_block_queue.get_all_free_blocks()
        ]
        stats = manager.prefix_cache_stats
        return blocks, stats and (stats.requests, stats.queries, stats.hits), manager.usage

    before = state()
    request = engine.request("next", prompt=PROMPT)
    assert engine.scheduler.switchyard.residency.resident(request) == (CACHED_TOKENS, CACHED_TOKENS)
    assert state() == before
