"""The choice between swap and recompute is the one that `gpu-agent/engine` makes (lab/golden/handling-cases.ts)."""

import json
from pathlib import Path
from typing import Any

from switchyard_vllm.handling.swap_choice import HandlingCosts, HeldImage, choose_swap

GOLDEN = Path(__file__).parents[2] / "golden" / "handling" / "swap-choice.jsonl"
CASES: list[dict[str, Any]] = [json.loads(line) for line in GOLDEN.read_text("utf-8").splitlines()]


def test_the_verdicts_are_the_engines() -> None:
    for number, case in enumerate(CASES, start=1):
        images = [HeldImage(*image) for image in case["images"]]
        costs = HandlingCosts(**case["costs"])
        choice = choose_swap(costs, case["tokens"], case["wait_tokens"], case["room"], case["free_room"], images)
        drop = None if choice is None else [image.id for image in choice]
        assert drop == case["drop"], f"case {number}"


def test_the_cases_show_every_verdict() -> None:
    verdicts = [case["drop"] for case in CASES]
    assert verdicts.count(None) > 50
    assert verdicts.count([]) > 50
    assert sum(1 for drop in verdicts if drop) > 20
    assert any(drop and len(drop) > 1 for drop in verdicts)
