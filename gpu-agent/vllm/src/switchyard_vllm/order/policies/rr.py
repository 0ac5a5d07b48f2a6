"""Round robin (a baseline of Autellix §6): a call that has spent its quantum lets the others have theirs.

`ties` "call" is the paper's: one queue over calls, and a call whose quantum is spent goes to its tail. "program" gives turns
to programs: a program's rank is the number of quanta that it has spent. The same as
`gpu-agent/engine/order/policies/rr/rr.ts`.
"""

import math
from dataclasses import dataclass

from ..policy import NEVER_US, Charge, Place, PolicyCall, Ties
from ..service import ServiceReading
from ..shown import shown_number, shown_us


@dataclass(frozen=True, slots=True)
class RrConfig:
    #: In the ordering reading of service.
    quantum_us: float
    ties: Ties = "call"


#: The reasons are in `gpu-agent/engine/order/policies/rr/README.md`.
RR_DEFAULTS: dict[ServiceReading, RrConfig] = {"modelled": RrConfig(5_000), "wall": RrConfig(200_000)}


class RrPlace(Place):
    __slots__ = ("of", "quantum_left_us")

    def __init__(self, rank: float, of: PolicyCall, quantum_left_us: float) -> None:
        super().__init__(rank)
        self.of = of
        self.quantum_left_us = quantum_left_us


class Rr:
    name = "rr"

    def __init__(self, config: RrConfig) -> None:
        if not config.quantum_us > 0:
            raise ValueError("rr: quantum_us must be positive")
        self.ties: Ties = config.ties
        self.refreshes = config.ties == "program"
        self._quantum_us = config.quantum_us

    def arrive(self, call: PolicyCall, now_us: int) -> RrPlace:
        return RrPlace(self._turns_of(call), call, self._quantum_us)

    def charge(self, place: RrPlace, charge: Charge, now_us: int) -> bool:
        if self.ties == "program":
            return self.refresh(place, now_us)
        place.quantum_left_us -= charge.charge_us
        if place.quantum_left_us > 0:
            return False
        place.quantum_left_us = self._quantum_us
        return True

    def refresh(self, place: RrPlace, now_us: int) -> bool:
        rank = self._turns_of(place.of)
        if rank == place.rank:
            return False
        place.rank = rank
        return True

    def yields_to(self, worst: RrPlace, best: RrPlace) -> bool:
        """By call the next call in the queue takes the seat. By program only a lower count of turns does."""
        return self.ties == "call" or best.rank < worst.rank

    def due_us(self, place: RrPlace) -> float:
        return NEVER_US

    def due(self, place: RrPlace, now_us: int) -> bool:
        return False

    def position(self, place: RrPlace) -> str:
        quantum = shown_us(self._quantum_us)
        if self.ties == "call":
            return f"in turn, {shown_us(place.quantum_left_us)} left of its turn of {quantum}"
        return f"turn {shown_number(place.rank + 1)} of its program, of {quantum} each"

    def _turns_of(self, call: PolicyCall) -> float:
        return 0 if self.ties == "call" else math.floor(call.program.service_us / self._quantum_us)
