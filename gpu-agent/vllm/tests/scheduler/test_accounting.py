"""What is measured of every call on vLLM's own scheduler: once, however it ends, and right for overlapping steps."""

import pytest

from switchyard_vllm import ProgramAwareScheduler
from switchyard_vllm.records import CallRecord

from .harness import CALL_US, STEP_US, Engine
from .loads import mixed, ticket

PLAS = {"policy": "plas", "quantum_s": 0.01, "levels": 4}


def records(engine: Engine) -> dict[str, CallRecord]:
    taken = engine.scheduler.switchyard_sink.take()
    by_name = {record.request_id: record for record in taken}
    assert len(by_name) == len(taken), "one record a call"
    return by_name


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("blocks", [400, 26])
def test_service_is_the_steps_that_a_call_was_in_and_the_rest_is_wait(depth: int, blocks: int) -> None:
    engine = Engine(ProgramAwareScheduler, depth=depth, blocks=blocks, switchyard=PLAS)
    load = mixed(6)
    play = engine.run(load)
    # A step's own time: from the later of its beginning and the end of the one before.
    service_us = {name: 0 for _, name, _ in load}
    ends = play.step_ends_us
    durations = [
        STEP_US + CALL_US * len(step) + 700 * sum(tokens for tokens in step.values() if tokens > 1) if step else 0
        for step in play.steps
    ]
    for step, duration_us in zip(play.steps, durations, strict=True):
        for name in step:
            service_us[name] += duration_us
    assert len(ends) == len(play.steps)
    for name, record in records(engine).items():
        measured = record.measurement
        assert measured.service_wall_us == service_us[name]
        assert measured.wait_us + measured.service_wall_us == measured.duration_us
        assert measured.wait_us >= 0
        assert measured.output_tokens == len(play.tokens[name])
        assert measured.first_token_us == play.first_token_us[name] - (play.ended[name].at_us - measured.duration_us)


def test_modelled_service_counts_a_prompt_token_once_however_often_a_call_is_preempted() -> None:
    for prefix_cache in (True, False):
        engine = Engine(
            ProgramAwareScheduler, prefix_cache=prefix_cache, blocks=26, switchyard={**PLAS, "hold_kv": False}
        )
        load = mixed(7)
        engine.run(load)
        preemptions = 0
        for name, record in records(engine).items():
            measured = record.measurement
            preemptions += measured.preemptions
            uncached = measured.prompt_tokens - measured.cached_tokens
            assert (
                measured.service_modelled_us == 125 * uncached + measured.cached_tokens + 500 * measured.output_tokens
            )
            assert measured.prompt_tokens == len(next(call["prompt"] for _, other, call in load if other == name))
        driver = engine.scheduler.switchyard
        by_reason = driver.preemption.for_seats + driver.preemption.for_memory + driver.preemption.by_vllm
        assert preemptions == by_reason > 0


def test_what_the_prefix_cache_spares_is_charged_as_cached() -> None:
    engine = Engine(ProgramAwareScheduler, switchyard=PLAS)
    engine.add("first", prompt=100, output=2)
    engine.run()
    engine.add("again", prompt=100, output=2)
    engine.run()
    taken = records(engine)
    assert [taken[name].measurement.cached_tokens for name in ("first", "again")] == [0, 96]


@pytest.mark.parametrize("depth", [1, 2])
def test_aborted_calls_leave_a_record_each_and_nothing_else(depth: int) -> None:
    engine = Engine(ProgramAwareScheduler, seats=2, depth=depth, switchyard=PLAS)
    engine.add("waits", xargs=ticket("w", service_us=10**9))
    for name in ("a", "b"):
        engine.add(name, output=40, xargs=ticket(name))
    for _ in range(3):
        engine.step()
    for name in ("waits", "a"):
        engine.abort(name)
    taken = records(engine)
    assert {name: record.outcome for name, record in taken.items()} == {"waits": "cancelled", "a": "cancelled"}
    assert taken["waits"].measurement.service_wall_us == 0
    assert taken["a"].measurement.service_wall_us > 0
    engine.run()
    assert list(records(engine)) == ["b"]
    assert engine.scheduler.switchyard.order.open_calls == 0


def test_a_call_that_is_aborted_in_a_step_is_charged_for_the_prompt_that_the_step_computes() -> None:
    engine = Engine(ProgramAwareScheduler, depth=2, switchyard=PLAS)
    engine.add("a", prompt=200, output=40)
    engine.schedule()
    engine.clock.now_us += 5_000
    engine.abort("a")
    measured = records(engine)["a"].measurement
    assert (measured.service_modelled_us, measured.service_wall_us, measured.output_tokens) == (200 * 125, 5_000, 0)
    engine.run()


@pytest.mark.parametrize("depth", [1, 2])
def test_a_preempted_call_can_be_aborted(depth: int) -> None:
    engine = Engine(ProgramAwareScheduler, seats=1, depth=depth, switchyard=PLAS)
    engine.add("worse", output=40, xargs=ticket("x", service_us=10**9))
    for _ in range(3):
        engine.step()
    engine.add("better", output=4, xargs=ticket("y"))
    engine.schedule()
    assert engine.scheduler.requests["worse"].status.name == "PREEMPTED"
    engine.abort("worse")
    engine.run()
    taken = records(engine)
    assert (taken["worse"].outcome, taken["worse"].measurement.preemptions) == ("cancelled", 1)
    assert len(taken["worse"].pauses) == 1
    assert taken["better"].outcome == "length"
    assert engine.scheduler.kv_cache_manager.block_pool.get_num_free_blocks() == 399


def test_the_body_carries_what_was_measured_unless_told_not_to() -> None:
    for told in (True, False):
        engine = Engine(ProgramAwareScheduler, switchyard={**PLAS, "report_in_body": told})
        engine.add("a", xargs={**ticket("a"), "switchyard_lease": "lease-1"})
        params = engine.run().ended["a"].params
        if told:
            assert params is not None
            assert params["switchyard"] == records(engine)["a"].as_dict()
            assert params["switchyard"]["lease"] == "lease-1"
        else:
            assert params is None


def test_a_program_is_known_by_its_session_and_a_ticket_that_knows_less_changes_nothing() -> None:
    engine = Engine(ProgramAwareScheduler, switchyard={**PLAS, "quantum_s": 0.001})

    def rank(name: str) -> float:
        return float(engine.scheduler.switchyard.calls[name].state.place.rank)

    engine.add("1", output=30, session="s")
    engine.run()
    engine.add("2", session="s")
    assert rank("2") == 3
    engine.add("3", session="s", xargs={"switchyard_service_us": 0, "switchyard_path_us": 0, "switchyard_wait_us": 0})
    assert rank("3") == 3
    engine.add("4", xargs=ticket("elsewhere", service_us=10**9))
    assert rank("4") == 3
    engine.run()


def test_calls_without_identity_leave_no_state() -> None:
    engine = Engine(ProgramAwareScheduler, switchyard=PLAS)
    for index in range(5):
        engine.add(f"{index}")
    engine.run()
    driver = engine.scheduler.switchyard
    assert len(driver.order.programs) == 0


def test_clients_without_an_agent_before_them_cannot_schedule_themselves() -> None:
    engine = Engine(ProgramAwareScheduler, switchyard={**PLAS, "identity": "session"})
    engine.add("a", session="s", xargs=ticket("a", tenant="another", weight=1000))
    state = engine.scheduler.switchyard.calls["a"].state
    assert (state.call.tenant, state.call.tenant_weight, state.call.program) == ("", 1, "session:s")
    engine.run()


def test_half_a_ticket_is_none_and_is_counted() -> None:
    engine = Engine(ProgramAwareScheduler, switchyard=PLAS)
    engine.add("a", session="s", xargs={**ticket("a"), "switchyard_service_us": -1})
    assert engine.scheduler.switchyard_meter.malformed_tickets == 1
    assert engine.scheduler.switchyard.calls["a"].state.call.program == "session:s"
    engine.run()


@pytest.mark.parametrize("policy", ["plas", "atlas", "learned"])
def test_prompts_count_for_what_they_cost_on_the_device(policy: str) -> None:
    def rank(device_type: str) -> float:
        engine = Engine(ProgramAwareScheduler, switchyard={"policy": policy}, device_type=device_type)
        engine.add("1", prompt=900)
        return float(engine.scheduler.switchyard.calls["1"].state.place.rank)

    assert rank("cpu") > rank("cuda")
