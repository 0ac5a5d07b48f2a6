"""Multi-level feedback queue over calls (FastServe): nothing is inherited from the program, every call starts in Q1.

A call that has used its level's quantum goes to the tail of the next level; in the last one it has no quantum. `ties` "call"
is the paper's; "program" keeps the programs of a level in their sequence. The same as
`gpu-agent/engine/order/policies/mlfq/mlfq.ts`.
"""

import math
from dataclasses import dataclass

from ..policy import NEVER_US, Charge, PolicyCall, Ties
from ..service import ServiceReading
from ..shown import shown_us
from .levels import LevelConfig, Levels
from .starvation import WindowPlace, promotion_us


@dataclass(frozen=True, slots=True)
class MlfqConfig(LevelConfig):
    #: Algorithm 1 preempts for every call that is before in order, one of the same level included.
    preemption_levels_min: float = 0
    ties: Ties = "call"


#: The paper gives neither quanta nor beta.
MLFQ_DEFAULTS: dict[ServiceReading, MlfqConfig] = {
    "modelled": MlfqConfig(levels=10, first_quantum_us=25_000, quantum_ratio=2, promotion_ratio=800),
    "wall": MlfqConfig(levels=10, first_quantum_us=1_000_000, quantum_ratio=2, promotion_ratio=20),
}


class MlfqPlace(WindowPlace):
    __slots__ = ("quantum_left_us",)

    def __init__(self, quantum_left_us: float, now_us: int) -> None:
        super().__init__(0, now_us)
        self.quantum_left_us = quantum_left_us


class Mlfq:
    name = "mlfq"
    refreshes = False

    def __init__(self, config: MlfqConfig) -> None:
        self.ties: Ties = config.ties
        self._levels = Levels("mlfq", config)
        self._promotion_ratio = config.promotion_ratio
        # Programs of one level keep their seats.
        self._yields_from = (
            config.preemption_levels_min if config.ties == "call" else max(1, config.preemption_levels_min)
        )

    def arrive(self, call: PolicyCall, now_us: int) -> MlfqPlace:
        return MlfqPlace(self._levels.quantum_us[0], now_us)

    def charge(self, place: MlfqPlace, charge: Charge, now_us: int) -> bool:
        place.window_wall_us += charge.wall_us
        place.window_charge_us += charge.charge_us
        place.quantum_left_us -= charge.charge_us
        if place.quantum_left_us > 0:
            return False
        place.rank += 1
        place.quantum_left_us = self._levels.quantum_us[int(place.rank)]
        return True

    def refresh(self, place: MlfqPlace, now_us: int) -> bool:
        return False

    def yields_to(self, worst: MlfqPlace, best: MlfqPlace) -> bool:
        return worst.rank - best.rank >= self._yields_from

    def due_us(self, place: MlfqPlace) -> float:
        if place.rank == 0:
            return NEVER_US
        return promotion_us(place, place.window_charge_us, 0, self._promotion_ratio)

    def due(self, place: MlfqPlace, now_us: int) -> bool:
        if now_us < self.due_us(place):
            return False
        place.rank = 0
        place.quantum_left_us = self._levels.quantum_us[0]
        place.reset_window(now_us)
        return True

    def position(self, place: MlfqPlace) -> str:
        left_us = place.quantum_left_us
        left = f", {shown_us(left_us)} of service left in it" if left_us < math.inf else ""
        return f"{self._levels.shown(place.rank)}{left}"
