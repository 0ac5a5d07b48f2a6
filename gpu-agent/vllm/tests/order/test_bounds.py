"""Each bound of the order: at it, and one past it."""

from dataclasses import replace
from typing import Any

import pytest

from switchyard_vllm.order import program_table, tenant_shares
from switchyard_vllm.order.call_state import Call, CallState
from switchyard_vllm.order.numbers import round_half_up
from switchyard_vllm.order.policies import create_policy
from switchyard_vllm.order.policies.levels import LEVELS_MAX, PROGRAM_LEVELS
from switchyard_vllm.order.policies.plas import plas
from switchyard_vllm.order.program_order import ProgramOrder, StepShare
from switchyard_vllm.order.program_table import ProgramTable
from switchyard_vllm.order.seating import SeatingConfig
from switchyard_vllm.order.service import ServiceTokens
from switchyard_vllm.order.tenant_shares import TenantShares


def call(lease: str, **given: object) -> Call:
    return replace(Call(lease, "t", 1, f"p-{lease}", 0, 0, 0, 4), **given)  # type: ignore[arg-type]


def scheduler(seats: int = 2, policy: str = "plas") -> ProgramOrder:
    return ProgramOrder(SeatingConfig(seats=seats), create_policy(policy), TenantShares())


@pytest.mark.parametrize(("value", "rounded"), [(0.5, 1), (1.5, 2), (2.5, 3), (-0.5, 0), (-1.5, -1), (2.4, 2)])
def test_halves_are_rounded_up(value: float, rounded: int) -> None:
    assert round_half_up(value) == rounded


def test_tenants_are_remembered_up_to_the_bound() -> None:
    shares = TenantShares()
    for index in range(tenant_shares.TENANTS_REMEMBERED_MAX):
        shares.charge(f"t{index}", 10, index)
    assert shares.recent_service_us("t0", 0) == 10
    shares.charge("one more", 10, 5000)
    assert shares.remembered == tenant_shares.TENANTS_REMEMBERED_MAX
    assert shares.recent_service_us("t0", 5000) == 0


@pytest.mark.parametrize("levels", [0, LEVELS_MAX + 1])
def test_levels_have_a_bound(levels: int) -> None:
    plas(replace(PROGRAM_LEVELS["wall"], levels=LEVELS_MAX))
    with pytest.raises(ValueError, match="levels must be"):
        plas(replace(PROGRAM_LEVELS["wall"], levels=levels))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("srpt", {}),
        ("fcfs", {"levels": 3}),
        ("rr", {"quantum_us": 0}),
        ("rr", {"levels": 2}),
        ("plas", {"first_quantum_us": 0}),
        ("plas", {"quantum_ratio": 0.5}),
        ("plas", {"promotion_ratio": 0}),
        ("plas", {"preemption_levels_min": -1}),
        ("rr", {"ties": "tenant"}),
    ],
)
def test_policies_that_cannot_be_are_refused(name: str, parameters: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"policy|must"):
        create_policy(name, parameters)


@pytest.mark.parametrize("config", [{"seats": 0}, {"steps_per_decision": 0}])
def test_seatings_that_cannot_be_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must|at least"):
        SeatingConfig(**{"seats": 1, **config})


def table_of(monkeypatch: pytest.MonkeyPatch, kept_max: int) -> ProgramTable:
    monkeypatch.setattr(program_table, "PROGRAMS_KEPT_MAX", kept_max)
    return ProgramTable()


def test_programs_without_open_calls_are_remembered_up_to_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(monkeypatch, 2)
    first, second, third = (table.open(name) for name in "abc")
    table.close(first, comes_back=True)
    table.close(second, comes_back=True)
    assert (len(table), table.idle) == (3, 2)
    assert table.open("a") is first
    table.close(first, comes_back=True)
    table.close(third, comes_back=True)
    # The second was idle for longest.
    assert (table.get("a"), table.get("b"), table.get("c")) == (first, None, third)


def test_a_program_of_one_call_leaves_nothing() -> None:
    table = ProgramTable()
    table.close(table.open("a"), comes_back=False)
    assert (len(table), table.idle) == (0, 0)


def told(core: ProgramOrder, lease: str, settled_us: int, elsewhere_us: int, now_us: int) -> CallState:
    ticket = {"settled_service_us": settled_us, "open_elsewhere_us": elsewhere_us}
    return core.arrive(call(lease, program="p", comes_back=True, **ticket), now_us)


def charge(core: ProgramOrder, state: CallState, output_tokens: int, now_us: int) -> None:
    core.settle(core.charge([StepShare(state, ServiceTokens(0, 0, output_tokens))], 1, now_us), now_us)


def test_no_lease_counts_twice_and_a_ticket_that_knows_less_lowers_nothing() -> None:
    core = scheduler()
    first = told(core, "first", 1_000, 0, 0)
    assert first.program.service_us == 1_000
    charge(core, first, 4, 10)
    assert first.program.service_us == 3_000
    # A ticket made while the first call was open: what it reports elsewhere is added, the open call counts as it is.
    second = told(core, "second", 1_000, 500, 20)
    assert second.program.service_us == 3_500
    core.ended(first, 30)
    assert second.program.service_us == 3_500
    # The first call's record has made its way, and what was open elsewhere has settled.
    third = told(core, "third", 3_500, 0, 40)
    assert third.program.service_us == 3_500
    told(core, "late", 1_000, 0, 50)
    assert third.program.service_us == 3_500


def test_a_charge_moves_the_waiting_calls_of_its_program() -> None:
    core = ProgramOrder(
        SeatingConfig(seats=1),
        create_policy("atlas", {"levels": 2, "first_quantum_us": 1_000, "prefill_us_per_token": 125}),
        TenantShares(),
    )
    runs, waits = told(core, "runs", 0, 0, 0), told(core, "waits", 0, 0, 0)
    core.decide(0)
    charge(core, runs, 2, 10)
    assert waits.place.rank == 1


def state_of(prompt_tokens: int) -> CallState:
    return scheduler().arrive(call("c", prompt_tokens=prompt_tokens), 0)


def test_a_prompt_token_is_charged_once_however_often_it_is_computed() -> None:
    state = state_of(40)
    assert state.reached(10, 30) == ServiceTokens(20, 10, 0)
    # Preempted, and resumed with nothing resident.
    assert state.reached(0, 35) == ServiceTokens(5, 0, 0)
    # Preempted again; another call's prefix reaches further than it had come itself.
    assert state.reached(38, 40) == ServiceTokens(2, 0, 0)
    assert state.reached(40, 41) == ServiceTokens(0, 0, 0)
    assert state.cached_tokens == 10


def test_starvation_promotes_at_beta_and_not_a_microsecond_before() -> None:
    parameters = {"levels": 2, "first_quantum_us": 1000, "promotion_ratio": 2, "prefill_us_per_token": 125}
    core = ProgramOrder(SeatingConfig(seats=1), create_policy("plas", parameters), TenantShares())
    starving = core.arrive(call("starving", settled_service_us=1500, critical_path_us=1500, program_wait_us=1000), 0)
    blocker = core.arrive(call("blocker"), 0)
    core.decide(0)
    shares = [StepShare(blocker, ServiceTokens(0, 0, 1))]
    core.settle(core.charge(shares, 1, 1), 1)
    core.decide(2999)
    assert starving.place.rank == 1
    core.decide(3000)
    assert starving.place.rank == 0
