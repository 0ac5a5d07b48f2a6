"""Which call gets a seat that falls free between two decisions, by `standby`."""

from dataclasses import replace

import pytest

from switchyard_vllm.order.call_state import CallState
from switchyard_vllm.order.policies import create_policy
from switchyard_vllm.order.program_order import ProgramOrder
from switchyard_vllm.order.seating import SeatingConfig, Standby
from switchyard_vllm.order.tenant_shares import TenantShares

from .test_bounds import call

PROMPT_TOKENS = 100
#: Behind every call that has received nothing.
SERVED_US = 10**9


def order_of(standby: Standby, seats: int = 1) -> ProgramOrder:
    config = SeatingConfig(seats=seats, steps_per_decision=8, standby=standby)
    return ProgramOrder(config, create_policy("plas", {"prefill_us_per_token": 0}), TenantShares())


def arrive(
    core: ProgramOrder, lease: str, resident_tokens: int = 0, *, served: bool = False, tenant: str = "t"
) -> CallState:
    served_us = SERVED_US if served else 0
    given = {"settled_service_us": served_us, "critical_path_us": served_us, "tenant": tenant}
    return core.arrive(call(lease, prompt_tokens=PROMPT_TOKENS, **given), 0, resident_tokens)


def seated(core: ProgramOrder) -> list[str]:
    return [state.call.lease for state in core.decide(0)]


def window(standby: Standby, seats: int = 2) -> tuple[ProgramOrder, CallState]:
    """A decision has been made: all seats are taken, and one of the calls, which is returned, is about to end."""
    core = order_of(standby, seats)
    ends = arrive(core, "ends")
    for index in range(seats - 1):
        arrive(core, f"stays {index}")
    core.decide(0)
    return core, ends


@pytest.mark.parametrize(("standby", "next_call"), [("in_order", "better"), ("resident_first", "resident")])
def test_a_freed_seat_goes_to_the_next_in_order_or_to_the_next_that_holds_its_kv(
    standby: Standby, next_call: str
) -> None:
    core, ends = window(standby)
    arrive(core, "evicted", PROMPT_TOKENS, served=True)
    arrive(core, "resident", PROMPT_TOKENS, served=True)
    arrive(core, "better")
    state = core.get("evicted")
    assert state is not None
    core.resident(state, 0, 0)
    core.ended(ends, 0)
    assert sorted(seated(core)) == sorted(["stays 0", next_call])


def test_without_a_call_that_holds_its_kv_no_seat_stays_empty() -> None:
    core, ends = window("resident_first")
    arrive(core, "better")
    arrive(core, "worse", served=True)
    core.ended(ends, 0)
    assert sorted(seated(core)) == ["better", "stays 0"]


def test_a_decision_goes_by_the_order_alone() -> None:
    core, ends = window("resident_first")
    arrive(core, "resident", PROMPT_TOKENS, served=True)
    arrive(core, "better")
    core.ended(ends, 0)
    order = [sorted(seated(core)) for _ in range(8)]
    assert order[:7] == [["resident", "stays 0"]] * 7
    assert order[7] == ["better", "stays 0"]


@pytest.mark.parametrize(("tokens", "holds"), [(PROMPT_TOKENS // 2, False), (PROMPT_TOKENS // 2 + 1, True)])
def test_a_call_holds_its_kv_from_more_than_half_of_its_prompt_on(tokens: int, holds: bool) -> None:
    core, ends = window("resident_first")
    assert arrive(core, "resident", tokens, served=True).holds_kv is holds
    arrive(core, "better")
    core.ended(ends, 0)
    assert ("resident" in seated(core)) is holds


def test_what_is_swapped_out_is_not_held_until_it_is_on_the_device_again() -> None:
    core, ends = window("resident_first", seats=3)
    swapped = arrive(core, "swapped", PROMPT_TOKENS, served=True)
    for name in ("b", "c"):
        arrive(core, name)
    core.resident(swapped, PROMPT_TOKENS, 0, 0)
    core.ended(ends, 0)
    assert sorted(seated(core)) == ["b", "stays 0", "stays 1"]
    core.resident(swapped, PROMPT_TOKENS, 0, PROMPT_TOKENS)
    stays = core.get("stays 0")
    assert stays is not None
    core.ended(stays, 0)
    assert sorted(seated(core)) == ["b", "stays 1", "swapped"]


def test_a_tenants_seat_goes_to_its_own_call_before_another_tenants_that_holds_its_kv() -> None:
    core = order_of("resident_first", seats=2)
    ends = arrive(core, "a1", tenant="a")
    arrive(core, "b1", tenant="b")
    assert sorted(seated(core)) == ["a1", "b1"]
    arrive(core, "b2", PROMPT_TOKENS, tenant="b")
    arrive(core, "a2", tenant="a")
    core.ended(ends, 0)
    assert sorted(seated(core)) == ["a2", "b1"]


def test_a_seat_that_its_tenant_leaves_goes_to_any_tenants_call_that_holds_its_kv() -> None:
    core = order_of("resident_first", seats=3)
    ends = arrive(core, "a1", tenant="a")
    arrive(core, "b1", tenant="b")
    arrive(core, "c1", tenant="c")
    core.decide(0)
    arrive(core, "b2", tenant="b")
    arrive(core, "c2", PROMPT_TOKENS, tenant="c")
    core.ended(ends, 0)
    assert sorted(seated(core)) == ["b1", "c1", "c2"]


def test_it_can_be_changed_while_calls_wait() -> None:
    core, ends = window("in_order", seats=3)
    arrive(core, "resident", PROMPT_TOKENS, served=True)
    arrive(core, "better")
    core.reconfigure(replace(core.config, standby="resident_first"), core.policy, 0)
    core.decide(0)
    core.ended(ends, 0)
    assert sorted(seated(core)) == ["resident", "stays 0", "stays 1"]


def test_the_first_calls_that_hold_their_kv_are_dealt_from_all_tenants() -> None:
    core, _ = window("resident_first")
    for lease, tokens, tenant in (("t1", 100, "t"), ("t2", 100, "t"), ("t3", 0, "t"), ("u1", 100, "u"), ("v1", 0, "v")):
        arrive(core, lease, tokens, tenant=tenant)
    assert [state.call.lease for state in core.first_holding(9)] == ["t1", "u1", "t2"]
    assert [state.call.lease for state in core.first_holding(2)] == ["t1", "u1"]
