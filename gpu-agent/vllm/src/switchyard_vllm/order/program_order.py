"""The order's one door: calls arrive, a decision says who has seats, charges and ends move the others. The same as
`gpu-agent/engine/order/program-order.ts`; golden traces and fuzzing compare them.

A step is `decide` (who sits), what vLLM makes of it, `charge` (sums, before anything of the step ends), `ended` for each call
that ended with it, and `settle` (what the step cost moves the others, and is charged to tenants).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from .call_state import Call, CallState, Measurement, QueueKey
from .due_calls import DueCalls
from .policy import Charge, Foresees, Outlook, Policy
from .program_table import ProgramTable
from .seating import Seating, SeatingConfig, SeatShares
from .service import DEFAULT_SERVICE_RATES, ONE_TOKEN, ServiceRates, ServiceReading, ServiceTokens
from .tenant_queue import TenantQueue

#: Charges beyond this are no longer exact in the control plane's arithmetic (JavaScript's safe integers).
SERVICE_US_MAX = 2**53 - 1


class StepShare(NamedTuple):
    """What one call computed in a step."""

    call: CallState
    tokens: ServiceTokens
    #: All that the step computes for it, what it computes again included.
    computed_tokens: int = 0


#: A call, and what it is charged.
StepCharge = tuple[CallState, Charge]


class OrderPosition(NamedTuple):
    #: Open calls of its tenant that run before it.
    before: int
    #: By what its policy orders it, in words.
    order: str


class ProgramOrder:
    def __init__(
        self,
        config: SeatingConfig,
        policy: Policy[Any],
        shares: SeatShares,
        ordering: ServiceReading = "modelled",
        rates: ServiceRates = DEFAULT_SERVICE_RATES,
    ) -> None:
        self.config = config
        self.policy = policy
        self.ordering = ordering
        self.programs = ProgramTable()
        self._shares = shares
        self._rates = rates
        self._seating = Seating(config, policy, shares)
        self._due = DueCalls(policy)
        self._open: dict[str, CallState] = {}
        self._sequence = 0
        self._settled = 0
        #: Open calls that came, or whose place changed, since `take_moved`.
        self._moved: dict[CallState, None] = {}

    @property
    def open_calls(self) -> int:
        return len(self._open)

    @property
    def decisions(self) -> int:
        return self._seating.decisions

    def get(self, lease: str) -> CallState | None:
        return self._open.get(lease)

    def reconfigure(self, config: SeatingConfig, policy: Policy[Any], now_us: int) -> None:
        """Another policy or other limits, from the next decision on: each open call gets a place as if it arrived with what
        its program has received. Calls of one rank keep the order in which they came to their last one.
        """
        self.config = config
        self.policy = policy
        self._seating.reconfigure(config, policy)
        for state in self._open.values():
            self._due.remove(state)
        self._due = DueCalls(policy)
        for state in self._open.values():
            state.tie(policy.ties)
            state.place = policy.arrive(state, now_us)
            self._seating.moved(state)
            self._due.set(state)
            self._moved[state] = None

    def arrive(self, call: Call, now_us: int, resident_tokens: int = 0) -> CallState:
        """No open call has its lease. `resident_tokens`: of the prompt, those whose KV is on the device."""
        assert call.lease not in self._open, "a lease is submitted once"
        policy = self.policy
        program = self.programs.open(call.program)
        state = CallState(call, now_us, self._seating.tenant_of(call), program, self._sequence)
        self._sequence += 1
        state.tie(policy.ties)
        state.resident_tokens = min(resident_tokens, state.prompt_tokens)
        state.holds_kv = state.is_most_of_prompt(resident_tokens)
        program.arrived(state)
        state.place = policy.arrive(state, now_us)
        self._open[call.lease] = state
        self._seating.add(state)
        self._due.set(state)
        self._moved[state] = None
        if policy.refreshes:
            for sibling in program.open:
                if sibling is not state:
                    self._refresh(sibling, now_us)
                    # The ticket may know of more wait.
                    self._due.set(sibling)
        return state

    def outlook(self, call: CallState) -> Outlook | None:
        """What the policy knows of a call that has just come. None: nothing that means anything here."""
        return self.policy.outlook(call.place) if isinstance(self.policy, Foresees) else None

    def positions(self, calls: Iterable[CallState]) -> list[OrderPosition]:
        """Where these open calls are in the order at this moment. Sorts the open calls of their tenants."""
        asked = list(calls)
        keys: dict[TenantQueue, list[QueueKey]] = {call.tenant: [] for call in asked}
        for other in self._open.values():
            if other.tenant in keys:
                keys[other.tenant].append(other.order_key)
        for tenant_keys in keys.values():
            tenant_keys.sort()
        words = self.policy.position
        return [OrderPosition(bisect_left(keys[call.tenant], call.order_key), words(call.place)) for call in asked]

    def resident(self, call: CallState, tokens: int, now_us: int, device_tokens: int | None = None) -> None:
        """Another number of the call's prompt tokens has its KV at hand.

        `device_tokens`: those of them that are on the device, as the rest are swapped out. None: all.
        """
        holds_kv = call.is_most_of_prompt(tokens if device_tokens is None else device_tokens)
        if holds_kv != call.holds_kv:
            call.tenant.set_holds_kv(call, holds_kv)
        resident_tokens = min(tokens, call.prompt_tokens)
        if resident_tokens == call.resident_tokens:
            return
        call.resident_tokens = resident_tokens
        self._refresh(call, now_us)
        self._due.set(call)

    def decide(self, now_us: int) -> list[CallState]:
        """Who sits in the next step, in the order in which they are served. The list is the order's own: do not keep it."""
        for call in self._due.moved(now_us):
            self._move(call)
        return self._seating.decide(now_us)

    def charge(self, shares: Iterable[StepShare], wall_us: int, ended_us: int) -> list[StepCharge]:
        """Adds a step of `wall_us` that ended at `ended_us` to the sums of the calls in it, and to their programs'.

        `settle` takes what comes back.
        """
        charges: list[StepCharge] = []
        by_wall = self.ordering == "wall"
        # Most calls of a step only decode, and are charged alike.
        decode_us = wall_us if by_wall else self._rates.decode_us_per_token
        decode = Charge(wall_us, decode_us, 0, 1)
        for call, tokens, computed_tokens in shares:
            modelled_us = call.charge(tokens, computed_tokens, wall_us, ended_us, self._rates)
            if tokens is ONE_TOKEN:
                charge = decode
            else:
                charge_us = wall_us if by_wall else modelled_us
                charge = Charge(wall_us, charge_us, tokens.uncached_prompt_tokens, tokens.output_tokens)
            call.charged_us += charge.charge_us
            call.program.charged(call, charge.charge_us, charge.output_tokens)
            charges.append((call, charge))
        return charges

    def settle(self, charges: Sequence[StepCharge], now_us: int) -> None:
        """Lets the policy move the charged calls that go on and others of their programs, and charges their tenants."""
        for call, charge in charges:
            call.tenant.step_charge_us += charge.charge_us
        self._move_charged(charges, now_us)
        for call, _ in charges:
            tenant = call.tenant
            if tenant.step_charge_us != 0:
                self._shares.charge(tenant.share, tenant.step_charge_us, now_us)
                tenant.step_charge_us = 0

    def ended(self, call: CallState, now_us: int) -> Measurement:
        assert not call.ended, "a call ends once"
        call.ended = True
        del self._open[call.call.lease]
        self._seating.remove(call)
        self._due.remove(call)
        self._moved.pop(call, None)
        measurement = call.measurement(now_us)
        program = call.program
        program.ended(call, measurement.wait_us)
        self.programs.close(program, comes_back=call.call.comes_back)
        # What the program has waited counts for its other calls, and may make them due.
        for sibling in program.open:
            self._refresh(sibling, now_us)
            self._due.set(sibling)
        return measurement

    def take_moved(self) -> Collection[CallState]:
        """Open calls that came, or whose place changed, since this was last asked."""
        moved, self._moved = self._moved, {}
        return moved

    @property
    def tenants(self) -> int:
        """Those that have open calls."""
        return self._seating.tenants

    def first_waiting(self, calls_max: int) -> list[CallState]:
        """The first calls without a seat, in order."""
        return self._seating.first_waiting(calls_max)

    def first_holding(self, calls_max: int) -> list[CallState]:
        """As `first_waiting`, of the calls that hold their KV."""
        return self._seating.first_holding(calls_max)

    def unseated_by_level(self) -> Counter[int]:
        """How many calls without a seat are at each level."""
        return self._seating.unseated_by_level()

    def _move_charged(self, charges: Sequence[StepCharge], now_us: int) -> None:
        policy = self.policy
        charged = policy.charge
        settled = self._settled
        self._settled += 1
        for call, charge in charges:
            call.settled = settled
            if not call.ended and charged(call.place, charge, now_us):
                self._move(call)
        if not policy.refreshes:
            return
        for call, _ in charges:
            program = call.program
            if len(program.open) < 2 or program.settled == settled:
                continue
            program.settled = settled
            for sibling in program.open:
                # A charged one was ranked by all charges of the step already.
                if sibling.settled != settled:
                    self._refresh(sibling, now_us)

    def _refresh(self, call: CallState, now_us: int) -> None:
        if self.policy.refreshes and self.policy.refresh(call.place, now_us):
            self._move(call)

    def _move(self, call: CallState) -> None:
        call.sequence = self._sequence
        self._sequence += 1
        self._seating.moved(call)
        self._due.set(call)
        self._moved[call] = None
