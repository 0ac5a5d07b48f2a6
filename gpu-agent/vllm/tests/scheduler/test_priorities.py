"""What vLLM sees of the order: the harness compares both after every step. Here are the loads that reach its corners."""

import random

import pytest
from vllm.v1.core.sched.request_queue import PriorityRequestQueue
from vllm.v1.request import Request

from switchyard_vllm import ProgramAwareScheduler
from switchyard_vllm.priorities import WAITING_MAX
from switchyard_vllm.sorted_queue import SortedRequestQueue

from .harness import Engine
from .loads import ticket

PLAS = {"policy": "plas", "quantum_s": 0.01, "quantum_ratio": 2, "levels": 8}


@pytest.mark.parametrize("seed", range(20))
def test_the_sorted_queue_gives_what_vllms_own_gives(seed: int) -> None:
    draw = random.Random(seed)
    engine = Engine(ProgramAwareScheduler)
    ours, theirs = SortedRequestQueue(), PriorityRequestQueue()
    queued: list[Request] = []
    for name in range(200):
        match draw.choice(("add", "add", "prepend", "pop", "remove", "remove several", "change")):
            case "add" | "prepend" as way:
                request = engine.request(str(name))
                # Equal ones too: the arrival time and the id decide.
                request.priority = draw.randrange(4)
                request.arrival_time = draw.randrange(3)
                for queue in (ours, theirs):
                    queue.add_request(request) if way == "add" else queue.prepend_request(request)
                queued.append(request)
            case "pop" if queued:
                assert ours.peek_request() is theirs.peek_request()
                request = ours.pop_request()
                assert theirs.pop_request() is request
                queued.remove(request)
            case "remove" if queued:
                request = queued.pop(draw.randrange(len(queued)))
                ours.remove_request(request)
                theirs.remove_request(request)
            case "remove several":
                gone = {request for request in queued if draw.random() < 0.1}
                ours.remove_requests(gone)
                theirs.remove_requests(gone)
                queued = [request for request in queued if request not in gone]
            case "change" if queued:
                request = draw.choice(queued)
                assert ours.take(request)
                theirs.remove_request(request)
                request.priority = draw.randrange(4)
                ours.add_request(request)
                theirs.add_request(request)
        assert list(ours) == list(theirs) == sorted(queued)
        assert len(ours) == len(queued) and bool(ours) == bool(queued)
    absent = engine.request("absent")
    assert not ours.take(absent)
    with pytest.raises(ValueError, match="not in the queue"):
        ours.remove_request(absent)


def test_an_empty_queue_has_nothing_to_pop() -> None:
    with pytest.raises(IndexError):
        SortedRequestQueue().pop_request()


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("tenants", [1, 3])
def test_vllm_has_our_order_of_more_waiting_calls_than_the_front_holds(depth: int, tenants: int) -> None:
    """Programs of several calls at once: what one is charged moves those that wait, in the middle of vLLM's queue."""
    draw = random.Random(7)
    engine = Engine(ProgramAwareScheduler, seats=6, blocks=60, depth=depth, switchyard=PLAS)
    waiting_max = 0
    for index in range(3 * WAITING_MAX):
        program = ticket(f"p{index // 4}", tenant=f"t{index // 4 % tenants}", service_us=draw.randrange(300_000))
        engine.add(
            f"c{index}", prompt=[index, *range(draw.randint(40, 300))], output=draw.randint(2, 30), xargs=program
        )
        if index % 3 == 0:
            engine.step()
        waiting_max = max(waiting_max, len(engine.scheduler.waiting))
        if index % 29 == 0:
            engine.abort(f"c{draw.randrange(index + 1)}")
    assert waiting_max > WAITING_MAX
    engine.run()
    assert engine.scheduler.switchyard.preemption.for_seats > 0


def test_calls_of_a_tenant_with_few_are_in_the_front_beside_one_with_many() -> None:
    engine = Engine(ProgramAwareScheduler, seats=2, switchyard=PLAS)
    for index in range(2 * WAITING_MAX):
        engine.add(f"many{index}", output=30, xargs=ticket(f"{index}", tenant="many"))
    # Of the worst level.
    for index in range(4):
        engine.add(f"few{index}", output=30, xargs=ticket(f"{index}", tenant="few", service_us=10_000_000))
    engine.step()
    queued = [request.request_id for request in engine.scheduler.waiting]
    assert queued[:6] == ["many1", "few1", "many2", "few2", "many3", "few3"]
