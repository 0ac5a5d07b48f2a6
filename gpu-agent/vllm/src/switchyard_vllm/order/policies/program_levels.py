"""Levels of a program's own work, for the policies that differ only in how they sum it up (plas, atlas).

    key = max(0, attained - w * resident * c) + 3/8 * missing * c        c: what computing one prompt token costs

`resident` prompt tokens have their KV at hand and `missing` ones are still to be computed. All calls of a program share its
service, so when one is charged its siblings move too. A call that starves is promoted to Q1 (starvation.py) and from there
goes down by what it is charged itself. Quanta count times the program's weight within its tenant. The same as
`gpu-agent/engine/order/policies/levels/program-levels.ts`, which holds the reasons.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from ..policy import NEVER_US, Charge, Outlook, PolicyCall, Ties
from ..program_table import ProgramSums
from ..shown import PROMOTED, shown_us
from .levels import Levels, ProgramLevelConfig
from .starvation import WindowPlace, promotion_us

#: How a program's attained service is summed up, in microseconds of the ordering reading.
Attained = Callable[[ProgramSums], float]


#: Missing tokens count for less than their cost, or programs with long prompts and short answers would wait behind all others.
_MISSING_WEIGHT = 0.375


class ProgramPlace(WindowPlace):
    __slots__ = ("of", "promoted")

    def __init__(self, of: PolicyCall, now_us: int) -> None:
        super().__init__(0, now_us)
        self.of = of
        self.promoted = False


class ProgramLevels:
    ties: Ties = "program"
    refreshes = True

    def __init__(self, name: str, attained: Attained, config: ProgramLevelConfig, *, attained_name: str) -> None:
        """`attained_name`: for people."""
        for field in ("prefill_us_per_token", "resident_weight"):
            if not getattr(config, field) >= 0:
                raise ValueError(f"{name}: {field} must not be negative")
        self.name = name
        self._attained = attained
        self._attained_name = attained_name
        self._levels = Levels(name, config)
        self._level_ends_us = self._levels.end_us
        self._promotion_ratio = config.promotion_ratio
        self._preemption_levels_min = config.preemption_levels_min
        self._prefill_us_per_token = config.prefill_us_per_token
        self._resident_us_per_token = config.resident_weight * config.prefill_us_per_token

    def arrive(self, call: PolicyCall, now_us: int) -> ProgramPlace:
        place = ProgramPlace(call, now_us)
        place.rank = self._rank_of(place)
        return place

    def charge(self, place: ProgramPlace, charge: Charge, now_us: int) -> bool:
        place.window_wall_us += charge.wall_us
        place.window_charge_us += charge.charge_us
        rank = self._rank_of(place)
        if rank == place.rank:
            return False
        place.rank = rank
        return True

    def refresh(self, place: ProgramPlace, now_us: int) -> bool:
        rank = self._rank_of(place)
        if rank == place.rank:
            return False
        place.rank = rank
        return True

    def yields_to(self, worst: ProgramPlace, best: ProgramPlace) -> bool:
        return best.rank < worst.rank and worst.rank - best.rank >= self._preemption_levels_min

    def outlook(self, place: ProgramPlace) -> Outlook:
        return Outlook(place.rank)

    def position(self, place: ProgramPlace) -> str:
        """Its level is that of what it has attained, less what is cached of its prompt, and with what is not."""
        call = place.of
        attained = f"{self._attained_name} {shown_us(self._attained(call.program))}"
        missing_tokens = call.prompt_tokens - call.resident_tokens
        missing = f", {missing_tokens} prompt tokens to compute" if missing_tokens > 0 else ""
        return f"{self._levels.shown(place.rank)}: {attained}{missing}{PROMOTED if place.promoted else ''}"

    def due_us(self, place: ProgramPlace) -> float:
        if place.rank == 0:
            return NEVER_US
        program = place.of.program
        service_us = program.service_us + self._missing_us(place.of)
        return promotion_us(place, service_us, program.wait_us, self._promotion_ratio)

    def due(self, place: ProgramPlace, now_us: int) -> bool:
        if now_us < self.due_us(place):
            return False
        place.promoted = True
        place.rank = 0
        place.reset_window(now_us)
        return True

    def _rank_of(self, place: ProgramPlace) -> int:
        # For every call of every step.
        call = place.of
        resident_tokens = call.resident_tokens
        token_us = self._prefill_us_per_token
        lost_us = self._attained(call.program) - self._resident_us_per_token * resident_tokens
        missing_us = _MISSING_WEIGHT * (call.prompt_tokens - resident_tokens) * token_us
        key_us = lost_us + missing_us if lost_us > 0 else missing_us
        weight = call.call.program_weight
        if weight == 1:
            level = bisect_right(self._level_ends_us, key_us)
        else:
            level = bisect_right(self._level_ends_us, key_us, key=lambda end_us: end_us * weight)
        return min(level, bisect_right(self._level_ends_us, place.window_charge_us)) if place.promoted else level

    def _missing_us(self, call: PolicyCall) -> float:
        """What computing the rest of the prompt costs."""
        return (call.prompt_tokens - call.resident_tokens) * self._prefill_us_per_token
