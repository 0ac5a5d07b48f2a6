"""Who is preempted, of running calls given by a few numbers each."""

from dataclasses import replace

from switchyard_vllm.order.call_state import Call, CallState
from switchyard_vllm.order.policy import Place
from switchyard_vllm.order.program_table import ProgramSums
from switchyard_vllm.order.tenant_queue import TenantQueue
from switchyard_vllm.victims import Runner, memory_victims, seat_victims

TENANT, OTHER = TenantQueue("t", 1), TenantQueue("o", 1)
BLOCKS = 4


def runner(
    name: str,
    *,
    seat: int | None = None,
    rank: float = 0,
    tokens: int = 10,
    settled: bool = True,
    tenant: TenantQueue = TENANT,
) -> Runner:
    call = Call(name, tenant.share, 1, name, 0, 0, 0, 5)
    state = CallState(call, 0, tenant, ProgramSums(name), ord(name[0]))
    state.place = Place(rank)
    state.seated = seat is not None
    state.seat_index = seat or 0
    return Runner(state, tokens, settled)


def names(victims: list[Runner]) -> list[str]:
    return [victim.state.call.lease for victim in victims]


def memory(head: Runner, missing: int, runners: list[Runner], most: int = 9) -> list[str]:
    return names(memory_victims(head.state, missing, runners, lambda _: BLOCKS, most))


def test_of_those_that_lost_their_seats_the_cheapest_to_bring_back_goes() -> None:
    runners = [runner("a", tokens=600), runner("b", tokens=40), runner("s", seat=0, tokens=1), runner("c", tokens=90)]
    assert names(seat_victims(runners, 2)) == ["b", "c"]
    assert seat_victims(runners, 0) == seat_victims(runners, -3) == []


def test_of_equal_cost_the_worst_goes() -> None:
    assert names(seat_victims([runner("a"), runner("b", rank=1), runner("c", rank=1)], 1)) == ["c"]


def test_memory_comes_from_calls_without_a_seat_first_then_from_the_last_seat_of_a_worse_level() -> None:
    head = runner("h", seat=0)
    runners = [
        runner("a", seat=1, rank=2),
        runner("b", seat=2, rank=2),
        runner("c", seat=3),
        runner("d", tokens=70),
        runner("e", tokens=60),
    ]
    assert memory(head, 1, runners) == ["e"]
    assert memory(head, 2 * BLOCKS, runners) == ["e", "d"]
    assert memory(head, 2 * BLOCKS + 1, runners) == ["e", "d", "b"]
    assert memory(head, 4 * BLOCKS, runners) == ["e", "d", "b", "a"]


def test_no_call_goes_if_all_together_would_not_be_enough_or_the_cap_is_below() -> None:
    head = runner("h", seat=0)
    runners = [runner("a"), runner("b")]
    assert memory(head, 2 * BLOCKS + 1, runners) == []
    assert memory(head, 2 * BLOCKS, runners, most=1) == []
    assert memory(head, 0, runners) == []


def test_a_call_that_has_given_no_token_since_it_was_admitted_keeps_its_memory() -> None:
    assert memory(runner("h", seat=0), 1, [runner("a", settled=False)]) == []


def test_between_tenants_the_order_of_seats_decides() -> None:
    head = runner("h", seat=2)
    before, behind = runner("a", seat=1, tenant=OTHER, rank=9), runner("b", seat=3, tenant=OTHER)
    assert memory(head, 1, [before]) == []
    assert memory(head, 1, [before, behind]) == ["b"]


def test_the_pure_parts_are_given_states_and_change_nothing() -> None:
    one = runner("a")
    seat_victims([one], 1)
    assert replace(one) == one
