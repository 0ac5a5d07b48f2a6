"""How fast this engine computes prompts: over its steps that compute many, with the later ones weighing more."""

from __future__ import annotations

from collections.abc import Sequence

from .order.program_order import StepShare

#: Steps that compute fewer tokens tell nothing of how fast prompts are computed.
PREFILL_STEP_TOKENS = 64
#: What a step leaves of the weight of those before it.
SPEED_DECAY = 0.98


class PrefillSpeed:
    def __init__(self) -> None:
        self._tokens = 0.0
        self._us = 0.0

    @property
    def us_per_token(self) -> float | None:
        """None: no prompt was computed so far."""
        return None if self._tokens == 0 else self._us / self._tokens

    def computed(self, shares: Sequence[StepShare], wall_us: int) -> None:
        """A step has ended."""
        tokens = sum(share.computed_tokens for share in shares)
        if tokens - len(shares) < PREFILL_STEP_TOKENS:
            return
        self._tokens = self._tokens * SPEED_DECAY + tokens
        self._us = self._us * SPEED_DECAY + wall_us
