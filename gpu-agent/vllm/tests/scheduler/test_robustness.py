"""What the plug-in does when it cannot work: it refuses at start, in a sentence, or gets out of vLLM's way."""

import logging
from typing import Any

import pytest

from switchyard_vllm import ProgramAwareScheduler
from switchyard_vllm.driver import Driver
from switchyard_vllm.options import OptionsError

from .harness import Engine, stock
from .loads import mixed, ticket
from .test_order import figures

PLAS = {"policy": "plas", "quantum_s": 0.01, "levels": 4}


def fail(*_: Any) -> Any:
    raise RuntimeError("a bug of ours")


@pytest.mark.parametrize(
    "hook", ["added", "before_schedule", "after_schedule", "before_update", "after_update", "freed"]
)
@pytest.mark.parametrize("depth", [1, 2])
def test_a_bug_in_any_hook_leaves_the_engine_to_vllm(
    hook: str, depth: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine = Engine(ProgramAwareScheduler, depth=depth, seats=3, switchyard=PLAS)
    engine.is_ours = False
    load = mixed(8)
    for _, name, given in load[:6]:
        engine.add(name, **given)
    for _ in range(4):
        engine.step()
    monkeypatch.setattr(engine.scheduler.switchyard, hook, fail)
    with caplog.at_level(logging.ERROR, logger="vllm.switchyard"):
        play = engine.run([(engine.clock.now_us, name, given) for _, name, given in load[6:]])
    assert {name: len(play.tokens[name]) for _, name, _ in load} == {name: call["output"] for _, name, call in load}
    assert engine.scheduler.switchyard_failures == 1
    taken = engine.scheduler.switchyard_sink.take()
    assert sorted(record.request_id for record in taken) == sorted(name for _, name, _ in load)
    outputs = {record.request_id: record.measurement.output_tokens for record in taken}
    # The hook that failed may leave out what two steps under way gave.
    missing = {name: call["output"] - outputs[name] for _, name, call in load}
    assert all(0 <= tokens <= depth for tokens in missing.values())
    assert sum(tokens > 0 for tokens in missing.values()) <= 3 * depth
    assert engine.scheduler.switchyard_meter.mailbox.status()["failed"]
    assert [record.message for record in caplog.records if record.name == "vllm.switchyard"] == [
        "switchyard: the plug-in failed and gives up; vLLM goes on in its own order"
    ]


def test_a_bug_while_a_call_is_preempted_leaves_no_limit_of_vllm_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook fails inside our own preemption, before prefills are limited for the call that makes others go."""
    engine = Engine(ProgramAwareScheduler, seats=2, step_tokens=64, switchyard={**PLAS, "quantum_s": 0.06})
    engine.add("decodes", prompt=10, output=60, xargs=ticket("decodes", service_us=10**9))
    engine.step()
    engine.add("long", prompt=1000, output=2, xargs=ticket("long", service_us=50_000))
    engine.step()
    engine.add("newcomer", output=4, xargs=ticket("newcomer"))
    engine.is_ours = False
    lowered: list[int] = []
    limit = engine.scheduler._switchyard_prefill_limit
    lower = limit.lower

    def seen(tokens_max: int) -> None:
        lowered.append(tokens_max)
        lower(tokens_max)

    monkeypatch.setattr(limit, "lower", seen)
    monkeypatch.setattr(engine.scheduler.switchyard, "preempted", fail)
    engine.step()
    assert engine.scheduler.switchyard_failures == 1
    assert lowered
    assert engine.scheduler.scheduler_config.long_prefill_token_threshold == 0
    play = engine.run()
    assert {name: len(tokens) for name, tokens in play.tokens.items()} == {"decodes": 60, "long": 2, "newcomer": 4}


def test_limits_of_vllm_are_restored_even_when_vllm_itself_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(ProgramAwareScheduler, step_tokens=64, chunk_tokens=60, switchyard=PLAS)
    engine.add("long", prompt=1000, xargs=ticket("long", service_us=10**9))
    engine.step()
    engine.add("short", xargs=ticket("short"))
    monkeypatch.setattr(engine.scheduler, "_update_after_schedule", fail)
    with pytest.raises(RuntimeError, match="a bug of ours"):
        engine.schedule()
    assert engine.scheduler.scheduler_config.long_prefill_token_threshold == 60


def test_after_a_bug_at_the_first_call_the_order_is_vllms_own(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(ProgramAwareScheduler, switchyard=PLAS)
    engine.is_ours = False
    monkeypatch.setattr(engine.scheduler.switchyard, "added", fail)
    theirs = Engine(stock(1), policy="priority")
    assert figures(engine.run(mixed(9))) == figures(theirs.run(mixed(9)))


def test_when_measuring_fails_too_the_plug_in_is_out_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(ProgramAwareScheduler, switchyard=PLAS)
    engine.is_ours = False
    monkeypatch.setattr(engine.scheduler.switchyard_meter, "outcome", fail)
    load = mixed(8)
    play = engine.run(load)
    assert {name: len(play.tokens[name]) for _, name, _ in load} == {name: call["output"] for _, name, call in load}
    assert (engine.scheduler.switchyard_failures, engine.scheduler.switchyard) == (2, None)
    status = engine.scheduler.switchyard_meter.mailbox.status()
    assert (status["failed"], status["measures"]) == (True, False)


def test_metrics_that_fail_leave_scheduling_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(ProgramAwareScheduler, switchyard=PLAS)
    engine.is_ours = False
    monkeypatch.setattr(engine.scheduler._switchyard_counts, "put_into", fail)
    engine.add("a")
    engine.run()
    assert isinstance(engine.scheduler.switchyard, Driver)
    assert engine.scheduler.switchyard_failures > 0


def test_it_refuses_to_run_under_an_order_that_vllm_would_ignore() -> None:
    with pytest.raises(OptionsError, match="--scheduling-policy priority"):
        Engine(ProgramAwareScheduler, policy="fcfs")


def test_it_refuses_options_that_it_does_not_know() -> None:
    with pytest.raises(OptionsError, match="there is no option 'quantum'; there are"):
        Engine(ProgramAwareScheduler, switchyard={"quantum": 3})
