"""The costs by which swap or recompute is chosen: what the operator set, else what was measured here, else a usual machine's.

Workers measure the copies when they start, and tell with their first report (copy_costs.py). What computing a token takes
is the engine's own speed of prefills (prefill_speed.py), which changes while it serves.
"""

from __future__ import annotations

from ..handling.swap_choice import HandlingCosts
from .orders import CopyCosts
from .swap_options import SwapOptions

#: What a link to the host moves a microsecond, where nothing was measured: PCIe 4.0 with 16 lanes, as it is reached.
LINK_BYTES_PER_US = 25_000
USUAL_BASE_US = 1000.0
USUAL_RECOMPUTE_US_PER_TOKEN = 50.0


class SwapCosts:
    def __init__(self, options: SwapOptions, bytes_per_token: float) -> None:
        """`bytes_per_token`: of KV, of one worker."""
        self._options = options
        link_us = bytes_per_token / LINK_BYTES_PER_US
        #: The scheduler's side reads it with each choice.
        self.current = HandlingCosts(USUAL_BASE_US, link_us, link_us, USUAL_RECOMPUTE_US_PER_TOKEN)
        self._copies_known = False
        self._prefill_known = options.recompute_us_per_token is not None
        for name in ("base_us", "save_us_per_token", "restore_us_per_token", "recompute_us_per_token"):
            self._set(name, getattr(self.current, name))

    def copies_take(self, copies: CopyCosts) -> None:
        self._copies_known = True
        for name in ("base_us", "save_us_per_token", "restore_us_per_token"):
            self._set(name, getattr(copies, name))

    def prefill_takes(self, us_per_token: float) -> None:
        self._prefill_known = True
        self._set("recompute_us_per_token", us_per_token)

    @property
    def measured(self) -> bool:
        """Nothing is taken from a usual machine."""
        return self._copies_known and self._prefill_known

    def as_dict(self) -> dict[str, float | bool]:
        costs = self.current
        return {
            "base_us": round(costs.base_us, 1),
            "save_us_per_token": round(costs.save_us_per_token, 3),
            "restore_us_per_token": round(costs.restore_us_per_token, 3),
            "recompute_us_per_token": round(costs.recompute_us_per_token, 3),
            "measured": self.measured,
        }

    def _set(self, name: str, value: float) -> None:
        chosen = getattr(self._options, name)
        setattr(self.current, name, value if chosen is None else chosen)
