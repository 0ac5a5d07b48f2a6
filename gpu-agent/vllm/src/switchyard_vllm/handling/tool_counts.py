"""What became of contexts while tools ran, since the engine started.

The same counts as `gpu-agent/engine/memory/handling/handling-counts.ts`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .waste import HANDLINGS, Handling


@dataclass(slots=True)
class HandlingCounts:
    #: Contexts for which it was decided when their call ended.
    decided: int = 0
    #: Whose programs came back.
    returned: int = 0
    #: Of calls that came back and ran: tokens of the context that their prompt goes on from, and those that were at hand.
    context_tokens: int = 0
    cached_tokens: int = 0

    def as_dict(self) -> dict[str, int]:
        return {
            "decided": self.decided,
            "returned": self.returned,
            "context_tokens": self.context_tokens,
            "cached_tokens": self.cached_tokens,
        }


@dataclass(slots=True)
class ToolCounts:
    of: dict[Handling, HandlingCounts] = field(default_factory=lambda: {name: HandlingCounts() for name in HANDLINGS})
    #: Pins that ended because a call needed their room.
    relieved: int = 0
    #: Preserved contexts that were swapped or dropped because their tools took longer than expected.
    revised: int = 0
    #: Images that were brought back before their program came.
    prefetched: int = 0
    #: Given up: their programs did not come back in time, or went on elsewhere.
    expired: int = 0

    def as_dict(self, away: int) -> dict[str, Any]:
        """`away`: contexts whose tools run."""
        return {
            **{name: one.as_dict() for name, one in self.of.items()},
            "away": away,
            "relieved": self.relieved,
            "revised": self.revised,
            "prefetched": self.prefetched,
            "expired": self.expired,
        }
