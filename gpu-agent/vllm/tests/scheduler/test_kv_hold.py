"""Contexts of programs whose tools run: calls that wait leave them in place, for as long as that pays."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass
from typing import Any

import pytest

from switchyard_vllm import ProgramAwareScheduler
from switchyard_vllm.handling import program_hold

from .harness import BLOCK_TOKENS, TOKEN, Engine
from .loads import ticket

BLOCKS = 173
SEATS = 8
GAP_US = (50_000, 250_000)


@dataclass
class Chains:
    """Programs whose every call sends the whole context so far, some time after the answer to the one before."""

    prompt_tokens_computed: int
    prompt_tokens: int
    program_ends_us: dict[str, int]

    @property
    def computed_share(self) -> float:
        return self.prompt_tokens_computed / self.prompt_tokens

    @property
    def mean_s(self) -> float:
        return sum(self.program_ends_us.values()) / len(self.program_ends_us) / 1e6


def play(
    switchyard: dict[str, Any],
    *,
    programs: int = 16,
    calls: int = 5,
    gap_us: tuple[int, int] = GAP_US,
    depth: int = 1,
) -> Chains:
    engine = Engine(ProgramAwareScheduler, seats=SEATS, blocks=BLOCKS, switchyard=switchyard, depth=depth)
    draw = random.Random(1)
    texts = {f"p{index}": [index, *(draw.randrange(3, 900) for _ in range(700))] for index in range(programs)}
    services = dict.fromkeys(texts, 0)
    left = dict.fromkeys(texts, calls)
    coming = [(index * 100_000, name) for index, name in enumerate(texts)]
    heapq.heapify(coming)
    told: set[str] = set()
    ends_us: dict[str, int] = {}
    prompt_tokens = 0
    for _ in range(50_000):
        while coming and coming[0][0] <= engine.clock.now_us:
            _, name = heapq.heappop(coming)
            lease = f"{name}-{left[name]}"
            sequence = {"switchyard_opened_at_ms": 1, "switchyard_tie": int(name[1:])}
            xargs = {**ticket(name, service_us=services[name]), **sequence}
            engine.add(lease, prompt=list(texts[name]), output=12, xargs=xargs)
            prompt_tokens += len(texts[name])
        if engine.scheduler.has_unfinished_requests():
            engine.step()
        elif engine.pending:
            engine.update()
        elif coming:
            engine.clock.now_us = max(engine.clock.now_us, coming[0][0])
        else:
            break
        for lease in engine.play.ended.keys() - told:
            told.add(lease)
            name = lease.split("-")[0]
            services[name] += 12 * 500
            texts[name] += [TOKEN] * 12 + [draw.randrange(3, 900) for _ in range(8)]
            left[name] -= 1
            if left[name] > 0:
                heapq.heappush(coming, (engine.clock.now_us + draw.randint(*gap_us), name))
            else:
                ends_us[name] = engine.clock.now_us
    assert len(ends_us) == programs
    computed = sum(tokens for step in engine.play.steps for tokens in step.values() if tokens > 1)
    return Chains(computed, prompt_tokens, ends_us)


@pytest.mark.parametrize(("policy", "depth"), [("fcfs-program", 1), ("plas", 1), ("plas", 2), ("atlas", 1)])
def test_programs_find_their_contexts_when_they_come_back(policy: str, depth: int) -> None:
    held = play({"policy": policy}, depth=depth)
    lost = play({"policy": policy, "hold_kv": False}, depth=depth)
    # Each program computes its first prompt, a fifth of all prompts, and what every later call adds.
    assert held.computed_share < 0.3
    assert lost.computed_share > 0.6
    assert held.mean_s < 0.55 * lost.mean_s


def test_a_policy_that_queues_calls_holds_nothing() -> None:
    assert play({"policy": "fcfs"}) == play({"policy": "fcfs", "hold_kv": False})


def test_programs_that_stay_away_for_longer_than_it_pays_are_not_waited_for() -> None:
    # The engine computes all of KV in some 4 s.
    away = (6_000_000, 9_000_000)
    held = play({"policy": "plas"}, gap_us=away)
    lost = play({"policy": "plas", "hold_kv": False}, gap_us=away)
    assert held.mean_s < 1.1 * lost.mean_s


def engine_of(**given: Any) -> Engine:
    return Engine(ProgramAwareScheduler, seats=2, blocks=30, switchyard={"policy": "plas"}, **given)


def text(first: int, blocks: int) -> list[int]:
    return [first, *range(3, 2 + blocks * BLOCK_TOKENS)]


def ended(engine: Engine, name: str, tenant: str = "t") -> None:
    """A program whose context of 16 blocks of 29 lies idle, while another call of 6 blocks runs."""
    engine.add("runs", prompt=text(1, 6), output=400, xargs=ticket("runs", tenant=tenant))
    engine.add(f"{name}-1", prompt=text(2, 16), output=2, xargs=ticket(name, tenant=tenant))
    while f"{name}-1" not in engine.play.ended:
        engine.step()


def starts(engine: Engine, name: str) -> bool:
    engine.step()
    return name in engine.play.steps[-1]


def held_back(engine: Engine) -> int:
    return int(engine.scheduler.switchyard.hold.held_back)


def test_a_call_waits_until_the_program_is_back_or_its_time_is_over() -> None:
    engine = engine_of()
    ended(engine, "p")
    engine.add("new", prompt=text(4, 12), output=2, xargs=ticket("new"))
    assert not starts(engine, "new")
    engine.add("p-2", prompt=text(2, 16), output=2, xargs=ticket("p"))
    assert starts(engine, "p-2")
    # All but the last, broken block of its prompt was at hand.
    assert engine.play.steps[-1]["p-2"] == len(text(2, 16)) - 15 * BLOCK_TOKENS
    while "p-2" not in engine.play.ended:
        engine.step()
    assert not starts(engine, "new")
    buy_us = engine.scheduler.switchyard.hold.buy_us
    # KV has room for 960 tokens, and a prompt token takes 700 us and its part of a step.
    assert 960 * 700 < buy_us < 960 * 850
    engine.clock.now_us += int(buy_us)
    assert starts(engine, "new")


def test_a_call_that_needs_none_of_the_blocks_starts() -> None:
    engine = engine_of()
    ended(engine, "p")
    engine.add("small", prompt=text(4, 2), output=2, xargs=ticket("small"))
    assert starts(engine, "small")
    assert held_back(engine) == 0


def test_a_better_call_does_not_wait() -> None:
    engine = engine_of()
    ended(engine, "p")
    # The program comes back with service that puts it behind a newcomer.
    engine.add("p-2", prompt=text(2, 16), output=2, xargs=ticket("p", service_us=10**9))
    while "p-2" not in engine.play.ended:
        engine.step()
    engine.add("new", prompt=text(4, 12), output=2, xargs=ticket("new"))
    assert starts(engine, "new")


def test_another_tenant_does_not_wait() -> None:
    engine = engine_of()
    ended(engine, "p")
    engine.add("other", prompt=text(4, 12), output=2, xargs=ticket("new", tenant="u"))
    assert starts(engine, "other")


def test_an_engine_that_stands_still_waits_for_no_tool() -> None:
    engine = engine_of()
    ended(engine, "p")
    engine.abort("runs")
    engine.add("new", prompt=text(4, 20), output=2, xargs=ticket("new"))
    assert starts(engine, "new")


def test_nothing_is_held_once_most_programs_stay_away() -> None:
    engine = engine_of()
    ended(engine, "p0")
    hold = engine.scheduler.switchyard.hold
    for index in range(1, 40):
        engine.clock.now_us += int(hold.buy_us)
        name = f"p{index}"
        engine.add(name, prompt=text(2, 16), output=2, xargs=ticket(name))
        while name not in engine.play.ended:
            engine.step()
    engine.add("new", prompt=text(4, 12), output=2, xargs=ticket("new"))
    assert starts(engine, "new")


def test_contexts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_hold, "CONTEXTS_MAX", 3)
    engine = Engine(ProgramAwareScheduler, switchyard={"policy": "plas"})
    for index in range(6):
        engine.add(f"c{index}", prompt=text(10 + index, 4), output=2, xargs=ticket(f"p{index}"))
    engine.run()
    hold = engine.scheduler.switchyard.hold
    assert list(hold._contexts) == ["t/p3", "t/p4", "t/p5"]
    assert hold.counts() == {
        "contexts": 3,
        "begun": 6,
        "returned": 0,
        "given_up": 3,
        "expired": 0,
        "held_back": 0,
    }


def test_what_became_of_holds_is_counted() -> None:
    engine = engine_of()
    ended(engine, "p")
    hold = engine.scheduler.switchyard.hold
    engine.add("p-2", prompt=text(2, 16), output=2, xargs=ticket("p"))
    while "p-2" not in engine.play.ended:
        engine.step()
    assert hold.counts() == {
        "contexts": 1,
        "begun": 2,
        "returned": 1,
        "given_up": 0,
        "expired": 0,
        "held_back": 0,
    }
    # Another tenant does not wait, and takes blocks of it.
    engine.add("other", prompt=text(5, 12), output=2, xargs=ticket("other", tenant="u"))
    while "other" not in engine.play.ended:
        engine.step()
    engine.add("p-3", prompt=text(2, 16), output=2, xargs=ticket("p"))
    assert hold.counts()["given_up"] == 1
    assert hold.counts()["returned"] == 1


def test_tools_of_a_class_that_return_soon_are_held_for_little_more() -> None:
    engine = engine_of()
    hold = engine.scheduler.switchyard.hold
    ended(engine, "first")
    for index in range(60):
        # Half of the programs come back at once, the others never do.
        name = f"p{index // 2}"
        engine.add(f"{name}-{index % 2}", prompt=text(2, 16), output=2, xargs=ticket(name))
        while f"{name}-{index % 2}" not in engine.play.ended:
            engine.step()
        engine.clock.now_us += 10_000 if index % 2 == 0 else int(hold.buy_us)
    engine.add("last", prompt=text(2, 16), output=2, xargs=ticket("last"))
    while "last" not in engine.play.ended:
        engine.step()
    assert hold.counts()["contexts"] >= 1
    engine.add("new", prompt=text(4, 12), output=2, xargs=ticket("new"))
    assert not starts(engine, "new")
    engine.clock.now_us += int(hold.buy_us / 4)
    assert starts(engine, "new")
