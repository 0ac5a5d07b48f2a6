"""For how long contexts are held is what `gpu-agent/engine` decides (lab/golden/hold-cases.ts)."""

import json
from pathlib import Path
from typing import Any

from switchyard_vllm.handling import program_hold
from switchyard_vllm.handling.program_hold import ProgramHold
from switchyard_vllm.handling.return_times import AwayPrograms

GOLDEN = Path(__file__).parents[2] / "golden" / "handling" / "program-hold.jsonl"
LINES: list[dict[str, Any]] = [json.loads(line) for line in GOLDEN.read_text("utf-8").splitlines()]


def test_what_is_held_and_what_became_of_it_is_the_engines() -> None:
    taken: set[str] = set()
    hold = ProgramHold(taken.__contains__)
    for number, line in enumerate(LINES, start=1):
        now_us = line["t"]
        if "ended" in line:
            program, tenant, program_class, buy_us = line["ended"]
            taken.discard(program)
            hold.ended(program, tenant, program_class, buy_us, now_us)
        elif "arrived" in line:
            hold.arrived(line["arrived"], now_us)
        elif "lost" in line:
            if hold.holds(line["lost"]):
                taken.add(line["lost"])
        else:
            hold.expire(now_us)
        ends = [hold.ends[name] for name in ("returned", "given_up", "expired")]
        counts = [hold.contexts, hold.begun, *ends]
        assert [hold.next_expiry_us, *counts] == [line["next"], *line["counts"]], f"line {number}"


def test_the_lines_show_every_end() -> None:
    contexts, begun, *ends = LINES[-1]["counts"]
    assert begun == contexts + sum(ends)
    assert min(ends) > 10


def test_contexts_and_classes_are_bounded() -> None:
    hold = ProgramHold(lambda _: False)
    for index in range(program_hold.CONTEXTS_MAX):
        hold.ended(f"p{index}", "t", "c", 1e6, index)
    assert hold.ends["given_up"] == 0
    hold.ended("last", "t", "c", 1e6, 2000)
    assert (hold.contexts, hold.ends["given_up"], hold.holds("p0")) == (program_hold.CONTEXTS_MAX, 1, False)
    for index in range(3 * program_hold.CONTEXTS_MAX):
        hold.arrived("last", 2001 + index)
        hold.ended("last", "t", f"c{index}", 1e6, 2001 + index)
    assert len(hold._due) <= 2 * program_hold.CONTEXTS_MAX
    assert len(hold._classes) == program_hold.CLASSES_MAX


def test_a_program_that_is_not_away_is_not_removed() -> None:
    away = AwayPrograms()
    away.add(5)
    away.remove(4)
    away.remove(6)
    assert len(away) == 1
    away.remove(5)
    assert len(away) == 0
