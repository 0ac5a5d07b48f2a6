"""What was decided for a program's KV when a call of it ended, as it travels with the call's record.

As `src/protocol/handling.ts`, which also says what the reasons mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from .waste import Handling, Waste

HandlingReason = Literal["least_waste", "only_choice", "not_foreseen"]


@dataclass(frozen=True, slots=True)
class HandlingDecision:
    handling: Handling
    reason: HandlingReason
    waste: Waste

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; waste is in whole byte-seconds."""
        wasted = self.waste
        swap = None if wasted.swap is None else round(wasted.swap)
        waste = {"preserve": round(wasted.preserve), "discard": round(wasted.discard), "swap": swap}
        return {"handling": self.handling, "reason": self.reason, "waste": waste}
