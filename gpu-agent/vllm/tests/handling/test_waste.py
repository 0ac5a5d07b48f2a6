"""What happens to a context while a tool runs is what `gpu-agent/engine` decides (lab/golden/waste-cases.ts)."""

import json
from pathlib import Path
from typing import Any

from switchyard_vllm.handling.waste import (
    MemoryCosts,
    TimeCurve,
    ToolChance,
    expected_tool_us,
    least_waste,
    revise_after_us,
    revise_handling,
    waste_of,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "handling" / "waste.jsonl"
CASES: list[dict[str, Any]] = [json.loads(line) for line in GOLDEN.read_text("utf-8").splitlines()]


def _costs(case: dict[str, Any]) -> MemoryCosts:
    given = case["costs"]
    swap = None if given["swap"] is None else TimeCurve(**given["swap"])
    return MemoryCosts(TimeCurve(**given["forward"]), swap, given["kv_bytes_per_token"])


def test_the_decisions_and_their_numbers_are_the_engines() -> None:
    for number, case in enumerate(CASES, start=1):
        tools = [ToolChance(*tool) for tool in case["tools"]]
        tool_us = expected_tool_us(tools, case["confidence"])
        assert tool_us == case["tool_us"], f"case {number}"
        if tool_us is None:
            continue
        costs, batch, allowed = _costs(case), case["batch"], case["allowed"]
        waste = waste_of(costs, batch["context_tokens"], batch["other_tokens"], tool_us)
        expected = case["waste"]
        assert (waste.preserve, waste.discard, waste.swap) == (
            expected["preserve"],
            expected["discard"],
            expected["swap"],
        ), f"case {number}"
        assert least_waste(waste, allowed) == case["handling"], f"case {number}"
        assert revise_after_us(tool_us) == case["revise_after_us"], f"case {number}"
        revised = revise_handling(costs, batch["context_tokens"], batch["other_tokens"], case["preserved_us"], allowed)
        assert revised.handling == case["revised"], f"case {number}"


def test_the_cases_show_every_decision() -> None:
    decided = [case["handling"] for case in CASES if case["tool_us"] is not None]
    assert len(decided) < len(CASES)
    for handling in ("preserve", "discard", "swap"):
        assert decided.count(handling) > 30
    changed = [case for case in CASES if "revised" in case and case["revised"] != case["handling"]]
    assert len(changed) > 10
