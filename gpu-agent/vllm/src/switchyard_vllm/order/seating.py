"""Who sits in the next step: tenants' shares first, then the policy's order within a tenant.

The decision stands until something that it depends on changes. Seats are taken from calls at every Nth step only
(Autellix §4.2.2, multi-step scheduling); between, a seat that falls free goes to a standby call: the one that is next in
order, or with `standby` "resident_first" the next one that holds its KV, if there is one. The same decisions, in the same
order, as `gpu-agent/engine/order/seating.ts`, which holds the reasons. Offline calls come after the online ones of every
tenant.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from typing import Literal, Protocol

from .call_state import Call, CallState
from .tenant_queue import QUOTA_UNSET, SeatPolicy, TenantQueue, share_of

#: Tenants with open calls by their shares.
Group = dict[str, TenantQueue]

#: Which call gets a seat that falls free between two decisions.
Standby = Literal["in_order", "resident_first"]


class SeatShares(Protocol):
    """How seats go to tenants."""

    def charge(self, tenant: str, service_us: float, now_us: int) -> None: ...
    def allocate(self, demand: dict[str, TenantQueue], seats: int, now_us: int) -> dict[str, int]: ...


@dataclass(frozen=True, slots=True)
class SeatingConfig:
    #: Calls in one step, at most.
    seats: int
    #: Seats are shared between tenants afresh when their demand changes, and else this often.
    shares_interval_us: int = 100_000
    #: N: seats are given and taken at every Nth step; between, only freed ones are given.
    steps_per_decision: int = 1
    #: Seats that change hands between calls of one tenant in one decision. None: all.
    preemptions_per_decision_max: int | None = None
    standby: Standby = "in_order"

    def __post_init__(self) -> None:
        counts = (self.seats, self.shares_interval_us, self.steps_per_decision, self.preemptions_max)
        if any(count < 1 for count in counts):
            raise ValueError("seats, shares_interval_us and the counts of steps and preemptions are at least 1")

    @property
    def preemptions_max(self) -> int:
        return self.seats if self.preemptions_per_decision_max is None else self.preemptions_per_decision_max


class Seating:
    def __init__(self, config: SeatingConfig, policy: SeatPolicy, shares: SeatShares) -> None:
        self._config = config
        self._policy = policy
        self._shares = shares
        #: Bounded by the open calls.
        self._online: Group = {}
        self._offline: Group = {}
        self._groups = (self._online, self._offline)
        self._order: list[CallState] = []
        self._open_calls = 0
        self._demand_changed = False
        self._order_changed = False
        self._quotas_until_us: float = math.inf
        #: Steps planned since seats were last decided.
        self._decided_steps = 0
        self.decisions = 0

    def reconfigure(self, config: SeatingConfig, policy: SeatPolicy) -> None:
        """Other limits from the next decision on, which comes at once. The seats are as many as before."""
        assert config.seats == self._config.seats, "an engine keeps its seats"
        self._config = config
        self._policy = policy
        self._decided_steps = 0
        self._order_changed = True

    @property
    def open_calls(self) -> int:
        return self._open_calls

    def tenant_of(self, call: Call) -> TenantQueue:
        """The queue of the call's tenant, which is kept only while it has calls."""
        share = share_of(call)
        group = self._offline if call.offline else self._online
        tenant = group.get(share) or TenantQueue(share, call.tenant_weight, offline=call.offline)
        tenant.weight = call.tenant_weight
        return tenant

    def add(self, call: CallState) -> None:
        self._group_of(call)[call.tenant.share] = call.tenant
        call.tenant.add(call)
        self._open_calls += 1
        self._demand_changed = True

    def remove(self, call: CallState) -> None:
        call.tenant.remove(call)
        if call.tenant.calls == 0:
            del self._group_of(call)[call.tenant.share]
        self._open_calls -= 1
        self._demand_changed = True

    def moved(self, call: CallState) -> None:
        call.tenant.moved(call)
        self._order_changed = True

    def decide(self, now_us: int) -> list[CallState]:
        """Seated calls, in the order in which they are served."""
        config = self._config
        decided = 0 < self._decided_steps < config.steps_per_decision
        if decided and self._seated_calls() > 0:
            self._decided_steps += 1
            if self._demand_changed:
                self._fill_freed()
            return self._order
        self._decided_steps = 1
        self.decisions += 1
        quotas_due = now_us >= self._quotas_until_us
        if not (quotas_due or self._demand_changed or self._order_changed):
            return self._order
        if quotas_due or (self._demand_changed and not self._quotas_fit()):
            self._set_quotas(now_us)
        done = True
        for tenant in self._queues():
            done = tenant.reseat(tenant.quota, self._policy, config.preemptions_max) and done
        self._deal()
        self._demand_changed = False
        self._order_changed = not done
        return self._order

    @property
    def tenants(self) -> int:
        """Those that have open calls."""
        return len(self._online) + len(self._offline)

    def first_waiting(self, calls_max: int) -> list[CallState]:
        """The first calls without a seat: each tenant's first, then each one's second, …, and offline ones after all."""
        first: list[CallState] = []
        for group in self._groups:
            if group and len(first) < calls_max:
                first += _first_waiting(group, calls_max - len(first))
        return first

    def first_holding(self, calls_max: int) -> list[CallState]:
        """As `first_waiting`, of the calls that hold their KV."""
        dealt: list[CallState | None] = []
        for group in self._groups:
            queues = [first for tenant in group.values() if (first := tenant.unseated.first_holding(calls_max))]
            dealt += chain.from_iterable(zip_longest(*queues))
        return list(islice((call for call in dealt if call is not None), calls_max))

    def unseated_by_level(self) -> Counter[int]:
        """How many calls without a seat are at each level."""
        calls: Counter[int] = Counter()
        for tenant in self._queues():
            tenant.unseated.count_by_level(calls)
        return calls

    def _fill_freed(self) -> None:
        """Between decisions: no call loses its seat. What changed is looked at again in the next decision."""
        free_seats = self._config.seats - self._seated_calls()
        for group in self._groups:
            free_seats -= self._fill_group(group, free_seats)
        self._deal()

    def _fill_group(self, group: Group, seats: int) -> int:
        """Returns the number of seats that were given."""
        resident_first = self._config.standby == "resident_first"
        free_seats = seats
        for tenant in group.values():
            quota = min(tenant.quota, len(tenant.seated) + free_seats)
            if resident_first:
                free_seats -= tenant.fill_holding(quota)
            free_seats -= tenant.fill(quota)
        for tenant in group.values():
            if resident_first and free_seats > 0:
                free_seats -= tenant.fill_holding(len(tenant.seated) + free_seats)
        for tenant in group.values():
            if free_seats > 0:
                free_seats -= tenant.fill(len(tenant.seated) + free_seats)
        return seats - free_seats

    def _group_of(self, call: CallState) -> Group:
        return self._offline if call.tenant.offline else self._online

    def _queues(self) -> Iterator[TenantQueue]:
        for group in self._groups:
            yield from group.values()

    def _seated_calls(self) -> int:
        return sum(len(tenant.seated) for tenant in self._queues())

    def _quotas_fit(self) -> bool:
        """The quotas came of contention, fill the seats, every tenant has one, and no offline call has an online one's."""
        if self._quotas_until_us == math.inf:
            return False
        filled_seats = 0
        offline_seats = 0
        online_waits = False
        for tenant in self._queues():
            if tenant.quota == QUOTA_UNSET:
                return False
            filled = min(tenant.quota, tenant.calls)
            filled_seats += filled
            if tenant.offline:
                offline_seats += filled
            elif tenant.calls > tenant.quota:
                online_waits = True
        return filled_seats == self._config.seats and not (online_waits and offline_seats > 0)

    def _set_quotas(self, now_us: int) -> None:
        self._quotas_until_us = math.inf
        free_seats = self._config.seats
        for group in self._groups:
            free_seats -= self._set_group_quotas(group, free_seats, now_us)

    def _set_group_quotas(self, group: Group, seats: int, now_us: int) -> int:
        """Returns how many of the `seats` the group has."""
        calls = sum(tenant.calls for tenant in group.values())
        if calls <= seats:
            for tenant in group.values():
                tenant.quota = tenant.calls
            return calls
        if seats == 0 or len(group) == 1:
            for tenant in group.values():
                tenant.quota = seats
        else:
            quotas = self._shares.allocate(group, seats, now_us)
            for tenant in group.values():
                tenant.quota = quotas.get(tenant.share, 0)
            self._quotas_until_us = now_us + self._config.shares_interval_us
        return seats

    def _deal(self) -> None:
        """Each tenant's first online call, then each one's second, …, then the offline ones alike.

        Memory and prefill tokens go out in this order.
        """
        order = self._order
        order.clear()
        for group in self._groups:
            queues = [tenant.seated for tenant in group.values() if tenant.seated]
            if len(queues) == 1:
                order += queues[0]
            elif queues:
                dealt = chain.from_iterable(zip_longest(*queues))
                order += [call for call in dealt if call is not None]
        for index, call in enumerate(order):
            call.seat_index = index


def _first_waiting(group: Group, calls_max: int) -> list[CallState]:
    queues = [tenant.unseated for tenant in group.values() if len(tenant.unseated) > 0]
    if len(queues) == 1:
        return queues[0].first(calls_max)
    dealt: list[CallState] = []
    index = 0
    while queues:
        for queue in queues:
            if len(dealt) == calls_max:
                return dealt
            dealt.append(queue.at(index))
        index += 1
        queues = [queue for queue in queues if index < len(queue)]
    return dealt
