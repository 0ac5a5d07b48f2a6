"""Plays calls through the order as an engine would, step by step on a clock of its own, checking what holds in every step."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from switchyard_vllm.order.call_state import Call, CallState, Measurement
from switchyard_vllm.order.policies import POLICY_NAMES, create_policy
from switchyard_vllm.order.policy import Policy
from switchyard_vllm.order.program_order import ProgramOrder, StepShare
from switchyard_vllm.order.seating import SeatingConfig
from switchyard_vllm.order.tenant_shares import TenantShares

LEVELS = {"levels": 4, "first_quantum_us": 3_000, "quantum_ratio": 2, "promotion_ratio": 8}
#: More steps than this mean that calls do not end.
STEPS_MAX = 20_000
STEP_US = 700


@st.composite
def small_policies(draw: st.DrawFn, names: tuple[str, ...], ordering: Any) -> Policy[Any]:
    name = draw(st.sampled_from(names))
    ties = {"ties": draw(st.sampled_from(["call", "program"]))}
    levels = {**LEVELS, "preemption_levels_min": draw(st.sampled_from([0, 1, 2]))}
    age = {"age_octaves": draw(st.integers(0, 2)), "age_scale": draw(st.sampled_from([0.01, 1])), "promotion_ratio": 8}
    parameters: dict[str, dict[str, Any]] = {
        "rr": {"quantum_us": 2_000, **ties},
        "mlfq": {**levels, **ties},
        "plas": levels,
        "atlas": levels,
        "learned": age,
    }
    return create_policy(name, parameters.get(name, {}), ordering)


@dataclass(frozen=True)
class Arrival:
    at_us: int
    call: Call
    output_tokens: int
    #: It is aborted so long after it came, running or not. None: never.
    abort_after_us: int | None


class ToyEngine:
    def __init__(self, scheduler: ProgramOrder, arrivals: list[Arrival]) -> None:
        self.scheduler = scheduler
        self.arrivals = sorted(arrivals, key=lambda arrival: (arrival.at_us, arrival.call.lease))
        self.left = {arrival.call.lease: arrival.output_tokens for arrival in arrivals}
        self.measured: dict[str, Measurement] = {}
        #: Summed charges by lease: wall and modelled.
        self.ledger: dict[str, list[int]] = {arrival.call.lease: [0, 0] for arrival in arrivals}
        self.steps: list[list[str]] = []
        #: (who took a seat, who lost one) in a decision, of one tenant.
        self.exchanges: list[tuple[CallState, CallState]] = []
        self.now_us = 0

    def play(self) -> "ToyEngine":
        aborts = sorted(
            (a.at_us + a.abort_after_us, a.call.lease) for a in self.arrivals if a.abort_after_us is not None
        )
        coming = list(self.arrivals)
        before: dict[str, CallState] = {}
        for _ in range(STEPS_MAX):
            while coming and coming[0].at_us <= self.now_us:
                self.scheduler.arrive(coming.pop(0).call, self.now_us)
            while aborts and aborts[0][0] <= self.now_us:
                lease = aborts.pop(0)[1]
                state = self.scheduler.get(lease)
                if state is not None:
                    self.end(state)
            order = list(self.scheduler.decide(self.now_us))
            self.check(order)
            now = {state.call.lease: state for state in order}
            lost = [state for lease, state in before.items() if lease not in now and not state.ended]
            won = [state for lease, state in now.items() if lease not in before]
            self.exchanges += [(a, b) for a in won for b in lost if a.tenant is b.tenant]
            before = now
            if order:
                self.step(order)
            elif coming:
                self.now_us = max(self.now_us + 1, coming[0].at_us)
            elif self.scheduler.open_calls == 0:
                return self
        raise AssertionError("every call ends")

    def check(self, order: list[CallState]) -> None:
        scheduler = self.scheduler
        leases = [state.call.lease for state in order]
        assert len(leases) == len(set(leases))
        assert len(order) <= scheduler.config.seats
        assert all(state.seated and state.seat_index == index for index, state in enumerate(order))
        assert len(order) == min(scheduler.config.seats, scheduler.open_calls)
        for lease in self.left:
            state = scheduler.get(lease)
            if state is not None:
                # A call that has waited beta times its service is at the tail of Q1 already.
                assert self.now_us < scheduler.policy.due_us(state.place)

    def step(self, order: list[CallState]) -> None:
        self.now_us += STEP_US
        self.steps.append([state.call.lease for state in order])
        shares: list[StepShare] = []
        for state in order:
            done = state.call.prompt_tokens + state.output_tokens if state.output_tokens else 0
            tokens = state.reached(done, done + 1) if done else state.reached(0, state.call.prompt_tokens)
            shares.append(StepShare(state, tokens._replace(output_tokens=1)))
            self.left[state.call.lease] -= 1
        charges = self.scheduler.charge(shares, STEP_US, self.now_us)
        for state, charge in charges:
            sums = self.ledger[state.call.lease]
            sums[0] += charge.wall_us
            sums[1] += state.service_modelled_us - sums[1] if self.scheduler.ordering == "wall" else charge.charge_us
        for state in order:
            if self.left[state.call.lease] == 0:
                self.end(state)
        self.scheduler.settle(charges, self.now_us)

    def end(self, state: CallState) -> None:
        self.measured[state.call.lease] = self.scheduler.ended(state, self.now_us)


@st.composite
def calls(draw: st.DrawFn, index: int, *, told: bool) -> Arrival:
    tenant = draw(st.integers(0, 2))
    program = draw(st.integers(0, 3))
    call = Call(
        lease=f"c{index}",
        tenant=f"t{tenant}",
        tenant_weight=1 + tenant,
        program=f"t{tenant}/p{program}",
        sequence=draw(st.sampled_from([None, (9 - program, 0)])),
        comes_back=True,
        settled_service_us=draw(st.one_of(st.just(0), st.integers(0, 40_000))) if told else 0,
        critical_path_us=draw(st.integers(0, 20_000)) if told else 0,
        program_wait_us=draw(st.one_of(st.just(0), st.integers(0, 60_000))) if told else 0,
        prompt_tokens=draw(st.integers(1, 40)),
    )
    abort = draw(st.one_of(st.none(), st.none(), st.integers(0, 20_000)))
    return Arrival(draw(st.integers(0, 30_000)), call, draw(st.integers(1, 20)), abort)


@st.composite
def engines(draw: st.DrawFn, policies: tuple[str, ...] = POLICY_NAMES, *, told: bool = True) -> ToyEngine:
    """`told`: calls bring what a ticket says of their programs."""
    ordering = draw(st.sampled_from(["modelled", "wall"]))
    config = SeatingConfig(
        seats=draw(st.integers(1, 5)),
        shares_interval_us=draw(st.sampled_from([1_000, 100_000])),
        steps_per_decision=1,
        preemptions_per_decision_max=draw(st.one_of(st.none(), st.integers(1, 3))),
    )
    policy = draw(small_policies(policies, ordering))
    scheduler = ProgramOrder(config, policy, TenantShares(), ordering)  # type: ignore[arg-type]
    count = draw(st.integers(1, 20))
    return ToyEngine(scheduler, [draw(calls(index, told=told)) for index in range(count)])
