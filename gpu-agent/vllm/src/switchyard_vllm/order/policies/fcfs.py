"""First come, first served, the baseline of Autellix §6 and what stock vLLM does: calls run in order of arrival.

`fcfs-program` serves programs in the order in which they came. Neither preempts for a seat.
"""

from ..policy import NEVER_US, Charge, Place, PolicyCall, Ties
from ..shown import BY_ARRIVAL, BY_PROGRAM


class Fcfs:
    refreshes = False

    def __init__(self, ties: Ties = "call") -> None:
        self.name = "fcfs" if ties == "call" else "fcfs-program"
        self.ties: Ties = ties

    def arrive(self, call: PolicyCall, now_us: int) -> Place:
        return Place(0)

    def charge(self, place: Place, charge: Charge, now_us: int) -> bool:
        return False

    def refresh(self, place: Place, now_us: int) -> bool:
        return False

    def yields_to(self, worst: Place, best: Place) -> bool:
        """A seat that a tenant's share took is given back in order; otherwise the earlier call has its seat already."""
        return self.ties == "call"

    def due_us(self, place: Place) -> float:
        return NEVER_US

    def due(self, place: Place, now_us: int) -> bool:
        return False

    def position(self, place: Place) -> str:
        return BY_ARRIVAL if self.ties == "call" else BY_PROGRAM
