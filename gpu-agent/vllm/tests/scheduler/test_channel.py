"""The side channel on vLLM's own scheduler: records of every end, the status, and a policy changed while calls run."""

import json
import socket
from collections.abc import Callable, Iterator
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from waiting import eventually

from switchyard_vllm import ProgramAwareScheduler

from .harness import BLOCK_TOKENS, MODEL_TOKENS_MAX, Engine
from .loads import ticket

TIMEOUT_S = 60
STATUSES_MAX = 60


@pytest.fixture
def folder() -> Iterator[str]:
    with TemporaryDirectory(prefix="sy-", dir="/tmp") as folder:
        yield folder


class Agent:
    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect(path)
        self.lines = self.socket.makefile("rb")

    def hear(self, kind: str) -> dict[str, Any]:
        while True:
            message: dict[str, Any] = json.loads(self.lines.readline())
            if message["type"] == kind:
                return message

    def hear_status(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first status that is wanted, of those of a minute."""
        for _ in range(STATUSES_MAX):
            status = self.hear("status")
            if wanted(status):
                return status
        raise AssertionError(f"the last status is {status}")

    def say(self, **message: Any) -> None:
        self.socket.sendall(json.dumps(message).encode() + b"\n")


def test_an_agent_hears_of_every_end_and_changes_the_policy_while_calls_run(folder: str) -> None:
    path = f"{folder}/engine.sock"
    engine = Engine(ProgramAwareScheduler, seats=1, switchyard={"policy": "fcfs", "socket": path})
    agent = Agent(path)
    hello = agent.hear("hello")
    assert {name: hello[name] for name in ("seats", "policy", "block_tokens", "context_tokens_max")} == {
        "seats": 1,
        "policy": "fcfs",
        "block_tokens": BLOCK_TOKENS,
        "context_tokens_max": MODEL_TOKENS_MAX,
    }
    status = agent.hear("status")
    assert (status["policy"], status["running"], status["waiting"]) == ("fcfs", 0, 0)
    assert status["kv_capacity_tokens"] == hello["kv_capacity_tokens"] == 400 * BLOCK_TOKENS
    engine.add("long", output=60, xargs=ticket("long", service_us=10**9))
    engine.add("short", output=3, xargs={**ticket("short"), "switchyard_lease": "lease-s"})
    for _ in range(3):
        engine.step()
    assert [request.request_id for request in engine.scheduler.running] == ["long"]
    agent.say(type="options", number=1, options={"levels": 0})
    agent.say(type="options", number=2, options={"policy": "plas"})
    eventually(lambda: engine.scheduler.switchyard.mailbox.waits() == 2)
    engine.step()
    assert engine.scheduler.switchyard.mailbox.status()["policy"] == "plas"
    assert agent.hear("applied")["number"] == 2
    engine.run()
    assert list(engine.play.ended) == ["short", "long"]
    heard = [agent.hear("record") for _ in range(2)]
    assert [(one["number"], one["request_id"], one["lease"]) for one in heard] == [
        (1, "short", "lease-s"),
        (2, "long", None),
    ]
    assert heard[1]["preemptions"] == 1
    agent.say(type="ack", number=2)
    eventually(lambda: len(engine.scheduler.switchyard_sink) == 0)
    status = agent.hear_status(lambda status: status["decisions"] > 0 and status["running"] == 0)
    assert status["policy"] == "plas"
    assert (status["waiting"], status["queued_tokens"], status["preemptions_for_seats"], status["failures"]) == (
        0,
        0,
        1,
        0,
    )
    engine.scheduler.shutdown()


def known(name: str, tokens: int) -> dict[str, Any]:
    """A class whose programs all have so many output tokens."""
    steps = [
        {
            "from_tokens": begin,
            "lines": [[(tokens - begin) * tokens, tokens]],
            "remaining_tokens": tokens - begin,
            "median_tokens": tokens,
        }
        for begin in range(0, tokens, max(1, tokens // 4))
    ]
    table = {"steps": steps, "prompt_tokens_per_output_token": 0, "call_tokens": 0, "call_share": 0}
    return {"tenant": "t", "class": name, "objective": "token_latency", "table": table}


@pytest.mark.parametrize(
    ("tables", "order"),
    [
        ([], ["first", "second"]),
        ([known("app:a", 400), known("app:b", 4)], ["second", "first"]),
        ([known("app:a", 4), known("app:b", 400)], ["first", "second"]),
        # Of another tenant, and so of another class.
        ([{**known("app:b", 4), "tenant": "u"}, {**known("app:a", 400), "tenant": "u"}], ["first", "second"]),
    ],
)
def test_calls_are_ordered_by_what_an_agent_tells_of_their_classes(
    folder: str, tables: list[dict[str, Any]], order: list[str]
) -> None:
    path = f"{folder}/engine.sock"
    engine = Engine(ProgramAwareScheduler, seats=1, switchyard={"policy": "fcfs", "socket": path})
    agent = Agent(path)
    agent.say(type="classes", classes=tables)
    agent.say(type="options", number=1, options={"policy": "learned"})
    mailbox = engine.scheduler.switchyard.mailbox
    eventually(lambda: mailbox.waits() == 1)
    for name, program_class in (("first", "app:a"), ("second", "app:b")):
        engine.add(name, output=12, xargs={**ticket(name), "switchyard_class": program_class})
        for _ in range(3):
            engine.step()
    assert mailbox.status()["policy"] == "learned"
    engine.run()
    assert list(engine.play.ended) == order
    engine.scheduler.shutdown()


def test_options_that_cannot_be_are_refused_with_the_reason_and_nothing_changes(folder: str) -> None:
    path = f"{folder}/engine.sock"
    engine = Engine(ProgramAwareScheduler, switchyard={"policy": "plas", "socket": path})
    agent = Agent(path)
    agent.say(type="options", number=3, options={"policy": "srpt"})
    eventually(lambda: engine.scheduler.switchyard.mailbox.waits() == 3)
    engine.add("a")
    engine.step()
    refused = agent.hear("refused")
    assert refused["number"] == 3
    assert "policy must be one of" in refused["reason"]
    assert engine.scheduler.switchyard.options.policy == "plas"
    engine.scheduler.shutdown()


def test_what_open_calls_have_cost_is_told_while_they_run(folder: str) -> None:
    path = f"{folder}/engine.sock"
    engine = Engine(ProgramAwareScheduler, switchyard={"socket": path})
    agent = Agent(path)
    agent.hear("hello")
    eventually(lambda: engine.scheduler.switchyard_meter.mailbox.heard)
    engine.add("a", output=60, xargs={**ticket("a"), "switchyard_lease": "lease-a"})
    for _ in range(20):
        engine.step()
    [[lease, wall_us, modelled_us, computed_tokens, sampled_tokens]] = agent.hear("charges")["leases"]
    assert (lease, computed_tokens) == ("lease-a", 40 + sampled_tokens - 1)
    assert 0 < modelled_us < wall_us
    engine.run()
    record = agent.hear("record")
    assert record["service_wall_us"] > wall_us
    assert record["computed_tokens"] == 40 + 60 - 1
    engine.scheduler.shutdown()


def test_where_open_calls_are_in_the_order_is_told_to_an_agent_that_asks(folder: str) -> None:
    path = f"{folder}/engine.sock"
    engine = Engine(ProgramAwareScheduler, seats=1, switchyard={"policy": "plas", "socket": path})
    agent = Agent(path)
    for name in ("first", "second", "third"):
        engine.add(name, output=30, xargs={**ticket(name), "switchyard_lease": f"lease-{name}"})
    for _ in range(3):
        engine.step()
    agent.say(type="positions", number=4, leases=["lease-first", "lease-third", "not open"])
    eventually(lambda: bool(engine.scheduler.switchyard.mailbox._questions))
    engine.step()
    told = agent.hear("positions")
    assert told["number"] == 4
    places = {lease: (waits, before, order) for lease, waits, _, before, order in told["positions"]}
    assert places.keys() == {"lease-first", "lease-third"}
    assert places["lease-first"][:2] == (False, 0)
    assert places["lease-third"][:2] == (True, 2)
    assert places["lease-third"][2].startswith("Q1 of 22: attained service 0.0 ms, 40 prompt tokens to compute")
    waited = {lease: waited_us for lease, _, waited_us, *_ in told["positions"]}
    assert waited["lease-third"] > waited["lease-first"] >= 0
    engine.run()
    engine.scheduler.shutdown()


def test_a_fault_in_telling_positions_leaves_the_schedule_as_it_is(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{folder}/engine.sock"
    engine = Engine(ProgramAwareScheduler, switchyard={"socket": path})
    # Its invariants want no failure of ours.
    engine.is_ours = False
    driver = engine.scheduler.switchyard
    monkeypatch.setattr(driver.order, "positions", lambda _: 1 // 0)
    engine.add("a", xargs={**ticket("a"), "switchyard_lease": "lease-a"})
    driver.mailbox.ask_positions(1, ["lease-a"])
    engine.step()
    assert engine.scheduler.switchyard is driver
    assert engine.scheduler.switchyard_failures == 1
    driver.mailbox.ask_positions(2, ["lease-a"])
    engine.run()
    assert engine.scheduler.switchyard_failures == 1
    engine.scheduler.shutdown()


def test_a_plug_in_that_failed_says_why_and_refuses_options_and_its_records_go_on(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{folder}/engine.sock"
    engine = Engine(ProgramAwareScheduler, switchyard={"socket": path})
    engine.is_ours = False
    agent = Agent(path)
    agent.hear("hello")
    monkeypatch.setattr(engine.scheduler.switchyard.order, "decide", lambda _: 1 // 0)
    engine.add("a", xargs={**ticket("a"), "switchyard_lease": "lease-a"})
    engine.run()
    assert agent.hear("record")["lease"] == "lease-a"
    status = agent.hear_status(lambda status: status["failed"])
    assert {name: status[name] for name in ("failures", "failed_reason", "measures", "policy", "running")} == {
        "failures": 1,
        "failed_reason": "ZeroDivisionError: integer division or modulo by zero",
        "measures": True,
        "policy": "plas",
        "running": 0,
    }
    agent.say(type="options", number=1, options={"policy": "fcfs"})
    eventually(lambda: engine.scheduler.switchyard_meter.mailbox.waits() == 1)
    engine.add("b")
    engine.run()
    assert "the plug-in failed (ZeroDivisionError" in agent.hear("refused")["reason"]
    engine.scheduler.shutdown()
