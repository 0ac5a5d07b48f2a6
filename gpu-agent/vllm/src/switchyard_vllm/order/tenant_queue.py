"""One tenant's open calls: those that hold a seat, in order, and those that wait. `reseat` keeps seats with the best.

A tenant's offline calls are a queue of their own.
The same as `gpu-agent/engine/order/tenant-queue.ts`.
"""

from operator import attrgetter
from typing import Any, Protocol

from .call_state import Call, CallState
from .ordered_calls import OrderedCalls


class SeatPolicy(Protocol):
    """What the policy says of seats."""

    def yields_to(self, worst: Any, best: Any) -> bool:
        """Whether `worst`, which has a seat, gives it to `best`, which waits and runs before it."""
        ...


_SEAT_KEY = attrgetter("seat_key")
#: A tenant that has come since seats were last shared.
QUOTA_UNSET = -1


def share_of(call: Call) -> str:
    """A tenant's id has no control characters, so that this is none."""
    return f"{call.tenant}\noffline" if call.offline else call.tenant


class TenantQueue:
    def __init__(self, share: str, weight: float, *, offline: bool = False) -> None:
        #: Whose share of the seats it is. Offline calls have one of their own.
        self.share = share
        self.offline = offline
        self.weight = weight
        #: Open calls, seated or not: the tenant's demand for seats.
        self.calls = 0
        self.seated: list[CallState] = []
        self.unseated = OrderedCalls()
        #: Seats that are the tenant's; may exceed its calls.
        self.quota = QUOTA_UNSET
        #: Charges of the step being settled.
        self.step_charge_us = 0
        self._unsorted = False

    def add(self, call: CallState) -> None:
        self.calls += 1
        self.unseated.push(call)

    def remove(self, call: CallState) -> None:
        self.calls -= 1
        if call.seated:
            self.seated.remove(call)
            call.seated = False
        else:
            self.unseated.remove(call)

    def moved(self, call: CallState) -> None:
        """The call's rank or sequence changed."""
        if call.seated:
            call.seat_key = call.order_key
            self._unsorted = True
        else:
            self.unseated.update(call)

    def set_holds_kv(self, call: CallState, holds_kv: bool) -> None:
        """Most of the KV of the call's prompt came to the device, or left it."""
        if call.seated:
            call.holds_kv = holds_kv
        else:
            self.unseated.set_holds_kv(call, holds_kv)

    def reseat(self, quota: int, policy: SeatPolicy, preemptions_max: int) -> bool:
        """Seats the best `quota` calls, as far as the limits allow. False: the next decision has more to do."""
        seated = self.seated
        if self._unsorted:
            seated.sort(key=_SEAT_KEY)
        self._unsorted = False
        while len(seated) > quota:
            self._unseat(seated.pop())
        self.fill(quota)
        for _ in range(preemptions_max):
            best = self.unseated.peek()
            worst = seated[-1] if seated else None
            if best is None or worst is None or not best.runs_before(worst):
                return True
            if not policy.yields_to(worst.place, best.place):
                return True
            seated.pop()
            self._seat(best)
            self._unseat(worst)
        return False

    def fill(self, quota: int) -> int:
        """Gives free seats up to `quota` to the best calls that have none, and takes none. Returns the number given."""
        before = len(self.seated)
        while len(self.seated) < quota and (best := self.unseated.peek()) is not None:
            self._seat(best)
        return len(self.seated) - before

    def fill_holding(self, quota: int) -> int:
        """As `fill`, with calls that hold their KV alone."""
        before = len(self.seated)
        while len(self.seated) < quota and (best := self.unseated.peek_holding()) is not None:
            self._seat(best)
        return len(self.seated) - before

    def _seat(self, call: CallState) -> None:
        self.unseated.remove(call)
        call.seated = True
        call.seat_key = call.order_key
        index = len(self.seated)
        while index > 0 and call.runs_before(self.seated[index - 1]):
            index -= 1
        self.seated.insert(index, call)

    def _unseat(self, call: CallState) -> None:
        call.seated = False
        self.unseated.push(call)
