"""Order on vLLM's own scheduler: nothing changes with one level, and with several the better call gets seat and memory."""

import math
from typing import Any

import pytest

from switchyard_vllm import ProgramAwareScheduler

from .fakes import Indexed
from .harness import BLOCK_TOKENS, Arrival, Engine, Play, stock
from .loads import mixed, short_and_long, ticket

PLAS = {"policy": "plas", "quantum_s": 0.01, "quantum_ratio": 2, "levels": 4}


def figures(play: Play) -> object:
    ended = {name: (end.at_us, end.reason) for name, end in play.ended.items()}
    return ended, play.first_token_us, play.tokens, play.steps, play.step_ends_us


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("blocks", [400, 26])
@pytest.mark.parametrize(
    "options", [{"policy": "plas", "levels": 1, "hold_kv": False}, {"policy": "fcfs"}], ids=["one level", "fcfs"]
)
def test_one_level_gives_the_figures_of_first_come_first_served(
    depth: int, prefix_cache: bool, blocks: int, options: dict[str, object]
) -> None:
    for seed in (1, 2, 3):
        sizes = {"depth": depth, "prefix_cache": prefix_cache, "blocks": blocks}
        theirs = Engine(stock(depth), policy="fcfs", **sizes).run(mixed(seed))  # type: ignore[arg-type]
        ours = Engine(ProgramAwareScheduler, switchyard=dict(options), **sizes).run(mixed(seed))  # type: ignore[arg-type]
        assert figures(ours) == figures(theirs)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("blocks", [400, 26])
@pytest.mark.parametrize("policy", ["plas", "atlas", "mlfq", "rr", "learned"])
def test_every_call_ends_with_all_its_tokens_under_preemption(
    depth: int, prefix_cache: bool, blocks: int, policy: str
) -> None:
    load = mixed(4)
    # Nothing is known of the programs, so learned preempts for those only that have waited.
    preempting = {"age_octaves": 1, "age_scale": 0.01} if policy == "learned" else {"quantum_s": 0.01}
    options: dict[str, object] = {"policy": policy, **preempting}
    sizes = {"seats": 2, "depth": depth, "prefix_cache": prefix_cache, "blocks": blocks}
    engine = Engine(ProgramAwareScheduler, switchyard=options, **sizes)  # type: ignore[arg-type]
    play = engine.run(load)
    assert {name: len(play.tokens[name]) for _, name, _ in load} == {name: call["output"] for _, name, call in load}
    driver = engine.scheduler.switchyard
    assert driver.preemption.for_seats > 0
    ledger = driver.meter.ledger
    assert driver.order.open_calls == len(driver.calls) == len(ledger) == ledger.lost == 0
    assert engine.scheduler.kv_cache_manager.block_pool.get_num_free_blocks() == blocks - 1


@pytest.mark.parametrize("depth", [1, 2])
def test_programs_of_unlike_sizes_end_sooner_than_first_come_first_served(depth: int) -> None:
    def mean_s(play: Play, load: list[Arrival]) -> float:
        return sum(play.ended[name].at_us - at_us for at_us, name, _ in load) / len(load) / 1e6

    for seed in (5, 6):
        load = short_and_long(seed)
        fcfs = Engine(stock(depth), policy="fcfs", depth=depth).run(load)
        plas = Engine(ProgramAwareScheduler, depth=depth, switchyard={"policy": "plas"}).run(load)
        assert mean_s(plas, load) < 0.7 * mean_s(fcfs, load)
        assert plas.step_ends_us[-1] < 1.05 * fcfs.step_ends_us[-1]


def run_until(engine: Engine, steps: int) -> None:
    for _ in range(steps):
        engine.step()


def running(engine: Engine) -> set[str]:
    return {request.request_id for request in engine.scheduler.running}


@pytest.mark.parametrize("depth", [1, 2])
def test_a_better_call_takes_the_seat_of_a_worse_one_in_the_step_it_comes(depth: int) -> None:
    engine = Engine(ProgramAwareScheduler, seats=2, depth=depth, switchyard=PLAS)
    for name in ("x", "y"):
        engine.add(name, output=60, xargs=ticket(name, service_us=10**9))
    run_until(engine, 4)
    engine.add("short", output=3, xargs=ticket("short"))
    engine.schedule()
    assert "short" in running(engine)
    assert len(running(engine)) == 2
    assert engine.scheduler.switchyard.preemption.for_seats == 1
    play = engine.run()
    assert {name: len(tokens) for name, tokens in play.tokens.items()} == {"x": 60, "y": 60, "short": 3}


def test_decisions_come_every_n_steps_and_a_freed_seat_is_given_at_once() -> None:
    engine = Engine(ProgramAwareScheduler, seats=2, switchyard={**PLAS, "steps_per_decision": 6})
    for name, output in (("x", 60), ("y", 3)):
        engine.add(name, output=output, xargs=ticket(name, service_us=10**9))
    run_until(engine, 1)
    engine.add("short", output=30, xargs=ticket("short"))
    engine.add("other", output=30, xargs=ticket("other"))
    run_until(engine, 2)
    assert running(engine) == {"x"}
    run_until(engine, 1)
    assert running(engine) == {"x", "short"}
    run_until(engine, 3)
    assert running(engine) == {"short", "other"}


@pytest.mark.parametrize(("standby", "next_call"), [("in_order", "better"), ("resident_first", "resident")])
def test_between_decisions_a_freed_seat_may_go_to_a_call_whose_prompt_is_cached(standby: str, next_call: str) -> None:
    options = {**PLAS, "steps_per_decision": 8, "standby": standby}
    engine = Engine(ProgramAwareScheduler, seats=2, switchyard=options)
    prompt = [*range(3, 3 + 8 * BLOCK_TOKENS)]
    engine.run([(0, "first", {"prompt": prompt, "output": 2, "xargs": ticket("p")})])
    for name, output in (("brief", 3), ("stays", 60)):
        engine.add(name, output=output, xargs=ticket(name))
    run_until(engine, 1)
    engine.add("resident", prompt=prompt, output=30, xargs=ticket("p", service_us=10**9))
    # Of which nothing is cached.
    engine.add("better", prompt=[900, *prompt], output=30, xargs=ticket("better"))
    run_until(engine, 3)
    assert running(engine) == {"stays", next_call}
    run_until(engine, 6)
    assert running(engine) == {"stays", "better"}


def test_hysteresis_keeps_a_seat_from_a_call_that_is_better_by_too_few_levels() -> None:
    engine = Engine(ProgramAwareScheduler, seats=1, switchyard={**PLAS, "preemption_levels_min": 2})
    engine.add("x", output=30, xargs=ticket("x", service_us=20_000))
    run_until(engine, 2)
    engine.add("better by one", output=3, xargs=ticket("one"))
    run_until(engine, 1)
    assert running(engine) == {"x"}


def test_no_more_seats_change_hands_in_a_decision_than_the_cap() -> None:
    engine = Engine(ProgramAwareScheduler, seats=3, switchyard={**PLAS, "preemptions_per_decision_max": 1})
    for name in ("x", "y", "z"):
        engine.add(name, output=60, xargs=ticket(name, service_us=10**9))
    run_until(engine, 2)
    for name in ("a", "b", "c"):
        engine.add(name, output=40, xargs=ticket(name))
    taken = []
    for _ in range(3):
        engine.step()
        taken.append(len(running(engine) & {"a", "b", "c"}))
    assert taken == [1, 2, 3]


def test_tenants_share_the_seats_before_any_order() -> None:
    engine = Engine(ProgramAwareScheduler, seats=4, switchyard=PLAS)
    for index in range(8):
        engine.add(f"many {index}", output=40, xargs=ticket(f"{index}", tenant="many"))
    run_until(engine, 2)
    for index in range(3):
        engine.add(f"few {index}", output=40, xargs=ticket(f"{index}", tenant="few", service_us=10**9))
    run_until(engine, 2)
    few = len([name for name in running(engine) if name.startswith("few")])
    # Half of the seats, and one more for having been served less; never all.
    assert few in (2, 3)
    assert len(running(engine)) == 4


@pytest.mark.parametrize("depth", [1, 2])
def test_memory_goes_to_the_better_call(depth: int) -> None:
    """Seats are free and blocks are not: stock vLLM would let the call wait until the worse ones end."""
    engine = Engine(ProgramAwareScheduler, seats=8, blocks=21, depth=depth, prefix_cache=False, switchyard=PLAS)
    for name in ("x", "y"):
        engine.add(name, prompt=8 * BLOCK_TOKENS, output=40, xargs=ticket(name, service_us=10**9))
    run_until(engine, 4)
    engine.add("short", prompt=6 * BLOCK_TOKENS, output=3, xargs=ticket("short"))
    engine.schedule()
    assert running(engine) == {"x", "short"}
    assert engine.scheduler.switchyard.preemption.for_memory == 1
    play = engine.run()
    assert {name: len(tokens) for name, tokens in play.tokens.items()} == {"x": 40, "y": 40, "short": 3}


def test_no_call_loses_memory_to_a_call_of_its_own_level_or_a_worse_one() -> None:
    options = {"policy": "plas", "quantum_s": 10}
    engine = Engine(ProgramAwareScheduler, seats=8, blocks=21, prefix_cache=False, switchyard=options)
    for name in ("x", "y"):
        engine.add(name, prompt=8 * BLOCK_TOKENS, output=20, xargs=ticket(name))
    run_until(engine, 3)
    engine.add("equal", prompt=6 * BLOCK_TOKENS, output=3, xargs=ticket("equal"))
    engine.add("worse", prompt=6 * BLOCK_TOKENS, output=3, xargs=ticket("worse", service_us=10**8))
    run_until(engine, 2)
    assert running(engine) == {"x", "y"}
    assert engine.scheduler.switchyard.preemption.for_memory == 0


def test_no_second_victim_is_taken_for_memory_that_is_on_its_way() -> None:
    """As with a connector that may write to freed blocks: a victim's blocks come back when its last step has been processed."""
    engine = Engine(ProgramAwareScheduler, seats=8, blocks=29, depth=2, prefix_cache=False, switchyard=PLAS)
    engine.scheduler.defer_block_free = True
    for name in ("x", "y", "z"):
        engine.add(name, prompt=8 * BLOCK_TOKENS, output=40, xargs=ticket(name, service_us=10**9))
    run_until(engine, 4)
    engine.add("short", prompt=7 * BLOCK_TOKENS, output=3, xargs=ticket("short"))
    engine.schedule()
    driver = engine.scheduler.switchyard
    assert driver.preemption.for_memory == 1
    assert len(engine.scheduler.deferred_frees) == 1
    assert running(engine) == {"x", "y"}
    engine.schedule()
    assert driver.preemption.for_memory == 1
    play = engine.run()
    assert driver.preemption.for_memory == 1
    assert {name: len(tokens) for name, tokens in play.tokens.items()} == {"x": 40, "y": 40, "z": 40, "short": 3}


@pytest.mark.parametrize("depth", [1, 2])
def test_a_call_that_came_back_keeps_its_memory_until_it_gives_a_token(depth: int) -> None:
    """The token of the step under way at its preemption arrives afterwards and does not count."""
    sizes = {"seats": 8, "blocks": 21, "step_tokens": 64, "prefix_cache": False}
    engine = Engine(ProgramAwareScheduler, depth=depth, switchyard=PLAS, **sizes)  # type: ignore[arg-type]
    for name in ("x", "y"):
        engine.add(name, prompt=8 * BLOCK_TOKENS, output=60, xargs=ticket(name, service_us=10**9))
    run_until(engine, 12)
    engine.add("short", prompt=6 * BLOCK_TOKENS, output=2, xargs=ticket("short"))
    while "short" not in engine.play.ended:
        engine.step()
    run_until(engine, 2)
    assert running(engine) == {"x", "y"}
    assert engine.scheduler.requests["y"].is_prefill_chunk
    engine.add("again", prompt=8 * BLOCK_TOKENS, output=2, xargs=ticket("again"))
    run_until(engine, 1)
    assert running(engine) == {"y", "again"}


def test_when_memory_runs_out_vllm_itself_takes_it_from_the_call_that_is_last_in_our_order() -> None:
    engine = Engine(ProgramAwareScheduler, seats=4, blocks=12, prefix_cache=False, switchyard=PLAS)
    engine.add("worst", prompt=3 * BLOCK_TOKENS, output=60, xargs=ticket("worst", service_us=10**9))
    for name in ("a", "b"):
        engine.add(name, prompt=3 * BLOCK_TOKENS, output=60, xargs=ticket(name))
    while engine.scheduler.switchyard.preemption.by_vllm == 0:
        engine.step()
    assert "worst" not in running(engine)
    play = engine.run()
    assert {len(tokens) for tokens in play.tokens.values()} == {60}


def indexed(ranks: dict[str, float], **sizes: Any) -> Engine:
    engine = Engine(ProgramAwareScheduler, switchyard=PLAS, **sizes)
    order = engine.scheduler.switchyard.order
    order.reconfigure(order.config, Indexed(ranks), 0)
    return engine


@pytest.mark.parametrize("depth", [1, 2])
def test_ranks_of_any_size_order_calls(depth: int) -> None:
    ranks = {"never": math.inf, "late": 1e18, "middle": 0.5, "soon": -1e9, "first": -math.inf}
    engine = indexed(ranks, seats=1, depth=depth)
    for name in ranks:
        # Some steps of the first ones take more than a second: the status counts calls by level meanwhile.
        engine.add(name, output=30, xargs=ticket(name))
    play = engine.run()
    assert list(play.ended) == ["first", "soon", "middle", "late", "never"]


def test_a_call_without_a_seat_never_goes_before_one_that_has_one_however_low_its_rank() -> None:
    ranks = {"a": -3e9, "b": -2e9, "c": -1e9}
    engine = indexed(ranks, seats=2, blocks=9, prefix_cache=False)
    for name in ranks:
        engine.add(name, prompt=3 * BLOCK_TOKENS, output=60, xargs=ticket(name))
    while "b" not in engine.play.ended:
        engine.step()
        assert "c" not in running(engine) or "a" in engine.play.ended
    assert engine.scheduler.switchyard.preemption.by_vllm > 0
    assert list(engine.run().ended) == ["a", "b", "c"]


def test_calls_of_several_tenants_that_wait_are_ordered_by_turns() -> None:
    engine = Engine(ProgramAwareScheduler, seats=1, switchyard=PLAS)
    for tenant in ("t", "o"):
        for index in range(3):
            engine.add(f"{tenant}{index}", output=30, xargs=ticket(f"{index}", tenant=tenant))
    run_until(engine, 1)
    queued = [request.request_id for request in engine.scheduler.waiting]
    assert queued == ["t0", "o1", "t1", "o2", "t2"]
