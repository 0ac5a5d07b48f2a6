"""`infercept`, `vllm-preserve` and `vllm-discard`: first come, first served with a handling of contexts while tools run.

The same as `gpu-agent/engine/order/policies/infercept/infercept.ts`, which holds the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from ...handling.waste import HANDLINGS, HandlingRule, handling_rule
from ..policy import NEVER_US, Charge, Place, PolicyCall, Ties
from ..shown import BY_ARRIVAL, BY_PROGRAM

ServedInOrder = Literal["infercept", "vllm-discard", "vllm-preserve"]
SERVED_IN_ORDER: tuple[ServedInOrder, ...] = get_args(ServedInOrder)

_RULES: dict[ServedInOrder, HandlingRule] = {
    "infercept": HandlingRule(HANDLINGS, hidden_swaps=True, revises=True),
    "vllm-discard": HandlingRule(("discard",), hidden_swaps=False, revises=False),
    "vllm-preserve": HandlingRule(("preserve",), hidden_swaps=False, revises=False),
}
_US_PER_MS = 1000


class Infercept:
    refreshes = False

    def __init__(self, name: ServedInOrder, handling: Mapping[str, Any] = {}) -> None:
        """`handling` replaces parts of the rule. Raises TypeError for a part that there is not."""
        self.name = name
        self.ties: Ties = "call" if name == "vllm-discard" else "program"
        self.handling = handling_rule(_RULES[name], handling)

    def arrive(self, call: PolicyCall, now_us: int) -> Place:
        """By when its program opened. A call without a program is one of its own; so is every call of `vllm-discard`."""
        sequence = call.call.sequence
        return Place(now_us / _US_PER_MS if self.ties == "call" or sequence is None else sequence[0])

    def charge(self, place: Place, charge: Charge, now_us: int) -> bool:
        return False

    def refresh(self, place: Place, now_us: int) -> bool:
        return False

    def yields_to(self, worst: Place, best: Place) -> bool:
        """A program that comes back takes the seat of a later one."""
        return best.rank < worst.rank

    def due_us(self, place: Place) -> float:
        return NEVER_US

    def due(self, place: Place, now_us: int) -> bool:
        return False

    def position(self, place: Place) -> str:
        return BY_ARRIVAL if self.ties == "call" else BY_PROGRAM
