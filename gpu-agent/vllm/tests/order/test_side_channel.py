"""The channel to the agent, over real sockets: records until they are acknowledged, options, and peers that misbehave."""

import json
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from waiting import eventually

from switchyard_vllm.mailbox import QUESTIONS_MAX, Mailbox
from switchyard_vllm.open_charges import Sums
from switchyard_vllm.order.call_state import Measurement
from switchyard_vllm.records import CallRecord, RecordBuffer
from switchyard_vllm.side_channel import (
    CHARGES_PER_MESSAGE_MAX,
    LINE_BYTES_MAX,
    POSITIONS_MAX,
    PROTOCOL_VERSION,
    SideChannel,
    listen,
)

TIMEOUT_S = 60


def record(name: str) -> CallRecord:
    return CallRecord(name, None, "", "", None, "stop", 2, Measurement(1, 0, 1, 5, 5, 0, 0, 0, 0, 0, 0, 5, 5))


class Agent:
    """What stands at the other end."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect(path)
        self._lines = self.socket.makefile("rb")

    def hear(self, kind: str) -> dict[str, Any]:
        """The next message of a kind; others are passed over."""
        return self.hear_any(kind)

    def hear_any(self, *kinds: str) -> dict[str, Any]:
        while True:
            line = self._lines.readline()
            if not line:
                raise ConnectionError("the engine hung up")
            message: dict[str, Any] = json.loads(line)
            if message["type"] in kinds:
                return message

    def say(self, **message: Any) -> None:
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def is_hung_up_on(self) -> bool:
        try:
            self.hear("nothing is of this kind")
        except ConnectionError:
            return True
        return False

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


class Engine:
    def __init__(self, folder: str) -> None:
        self.records = RecordBuffer()
        self.mailbox = Mailbox()
        self.channel = SideChannel(f"{folder}/engine.sock", self.records, self.mailbox, {"seats": 4})
        self.channel.start()

    def agent(self) -> Agent:
        return Agent(self.channel.path)


@pytest.fixture
def engine() -> Iterator[Engine]:
    # A socket's path must be short; a test's own folder is not.
    with TemporaryDirectory(prefix="sy-", dir="/tmp") as folder:
        engine = Engine(folder)
        yield engine
        engine.channel.stop()


def test_an_agent_is_greeted_and_told_the_status(engine: Engine) -> None:
    engine.mailbox.set_status({"running": 3})
    agent = engine.agent()
    hello = agent.hear("hello")
    assert (hello["v"], hello["pid"], hello["seats"]) == (PROTOCOL_VERSION, os.getpid(), 4)
    status = agent.hear("status")
    assert (status["running"], status["records_waiting"], status["records_dropped"]) == (3, 0, 0)
    agent.close()


def test_records_are_sent_again_to_the_next_agent_until_they_are_acknowledged(engine: Engine) -> None:
    for name in ("a", "b", "c"):
        engine.records.publish(record(name))
    first = engine.agent()
    epoch = first.hear("hello")["epoch"]
    heard = [first.hear("record") for _ in range(3)]
    assert [(one["number"], one["request_id"]) for one in heard] == [(1, "a"), (2, "b"), (3, "c")]
    first.say(type="ack", number=2)
    eventually(lambda: len(engine.records) == 1)
    first.close()
    second = engine.agent()
    assert second.hear("hello")["epoch"] == epoch
    engine.records.publish(record("d"))
    assert [second.hear("record")["number"] for _ in range(2)] == [3, 4]
    second.close()


def test_the_latest_options_are_left_for_the_scheduler_and_its_verdict_goes_back(engine: Engine) -> None:
    agent = engine.agent()
    agent.say(type="hello", v=PROTOCOL_VERSION)
    agent.say(type="options", number=7, options={"policy": "fcfs"})
    eventually(lambda: engine.mailbox.waits() == 7)
    assert engine.mailbox.asked() == (7, {"policy": "fcfs"})
    assert engine.mailbox.asked() is None
    engine.mailbox.answer({"type": "applied", "number": 7, "policy": "fcfs"})
    assert agent.hear("applied")["number"] == 7
    agent.close()


def test_programs_that_go_on_elsewhere_are_left_for_the_scheduler(engine: Engine) -> None:
    agent = engine.agent()
    assert agent.hear("hello")["handle"] is True
    agent.say(type="handle", handling="discard", program="p")
    left: list[str] = []

    def heard() -> bool:
        left.extend(engine.mailbox.left())
        return bool(left)

    eventually(heard)
    assert left == ["p"]


def test_questions_where_calls_are_are_left_for_the_scheduler_and_its_answer_goes_back(engine: Engine) -> None:
    agent = engine.agent()
    assert agent.hear("hello")["positions"] is True
    leases = [f"lease-{index}" for index in range(POSITIONS_MAX)]
    agent.say(type="positions", number=7, leases=leases)
    asked: list[Any] = []

    def heard() -> bool:
        asked.extend(engine.mailbox.questions())
        return bool(asked)

    eventually(heard)
    assert asked == [(7, leases)]
    engine.mailbox.answer({"type": "positions", "number": 7, "positions": [("lease-0", True, 5, 1, "in words")]})
    assert agent.hear("positions")["positions"] == [["lease-0", True, 5, 1, "in words"]]
    agent.say(type="positions", number=8, leases=[*leases, "one more"])
    assert agent.is_hung_up_on()


def test_of_more_questions_than_are_kept_the_oldest_get_no_answer() -> None:
    mailbox = Mailbox()
    for number in range(QUESTIONS_MAX + 1):
        mailbox.ask_positions(number, ["a"])
    assert [number for number, _ in mailbox.questions()] == list(range(1, QUESTIONS_MAX + 1))
    assert mailbox.questions() == ()


def test_what_is_known_of_classes_is_left_for_the_scheduler(engine: Engine) -> None:
    agent = engine.agent()
    assert agent.hear("hello")["classes"] is True
    step = {"from_tokens": 0, "lines": [[1, 2]], "remaining_tokens": 3, "median_tokens": 4}
    table = {"steps": [step], "prompt_tokens_per_output_token": 0, "call_tokens": 0, "call_share": 0}
    told = {"tenant": "a", "class": "app:x", "objective": "response", "table": table}
    agent.say(type="classes", classes=[told])
    eventually(lambda: len(engine.mailbox.classes) == 1)
    known = engine.mailbox.classes.table_of("a", "app:x", "response")
    assert known is not None
    assert known.steps[0].lines == ((1.0, 2.0),)
    agent.close()


def test_charges_are_said_as_they_change_and_all_of_them_to_the_next_agent(engine: Engine) -> None:
    first = engine.agent()
    first.hear("hello")
    eventually(lambda: engine.mailbox.heard)
    engine.mailbox.set_charges({"a": Sums(10, 5, 4, 1), "b": Sums(10, 6, 5, 1)})
    assert first.hear("charges")["leases"] == [["a", 10, 5, 4, 1], ["b", 10, 6, 5, 1]]
    engine.mailbox.set_charges({"a": Sums(10, 5, 4, 1), "b": Sums(30, 8, 7, 3)})
    assert first.hear("charges")["leases"] == [["b", 30, 8, 7, 3]]
    first.close()
    second = engine.agent()
    second.hear("hello")
    assert second.hear("charges")["leases"] == [["a", 10, 5, 4, 1], ["b", 30, 8, 7, 3]]
    second.close()
    eventually(lambda: not engine.mailbox.heard)


def test_nothing_is_said_of_a_lease_after_its_record(engine: Engine) -> None:
    agent = engine.agent()
    engine.mailbox.set_charges({"a": Sums(4, 4, 4, 1), "b": Sums(1, 1, 1, 0)})
    agent.hear("charges")
    engine.mailbox.set_charges({"a": Sums(5, 5, 5, 1), "b": Sums(2, 2, 2, 0)})
    engine.mailbox.forget_charges("a")
    engine.records.publish(record("a"))
    heard: list[dict[str, Any]] = []
    while len(heard) < 2:
        message = agent.hear_any("charges", "record")
        heard.append(message)
    assert [one["type"] for one in heard if one["type"] == "record"] == ["record"]
    after = heard[[one["type"] for one in heard].index("record") + 1 :]
    assert all(lease != "a" for one in after for lease, *_ in one["leases"])
    agent.close()


@pytest.mark.parametrize(("leases", "messages"), [(CHARGES_PER_MESSAGE_MAX, 1), (CHARGES_PER_MESSAGE_MAX + 1, 2)])
def test_charges_of_many_leases_go_in_several_messages(engine: Engine, leases: int, messages: int) -> None:
    engine.mailbox.set_charges({f"l{index}": Sums(1, 1, 1, 1) for index in range(leases)})
    agent = engine.agent()
    said = [agent.hear("charges")["leases"] for _ in range(messages)]
    assert sum(map(len, said)) == leases
    assert max(map(len, said)) <= CHARGES_PER_MESSAGE_MAX
    agent.close()


def test_a_later_agent_replaces_the_one_before(engine: Engine) -> None:
    first = engine.agent()
    first.hear("hello")
    second = engine.agent()
    second.hear("hello")
    assert first.is_hung_up_on()
    second.close()


@pytest.mark.parametrize(
    "said",
    [
        b"no json\n",
        b"[]\n",
        b'{"type":"order"}\n',
        b'{"type":"hello","v":2}\n',
        b'{"type":"ack","number":"1"}\n',
        b'{"type":"options","number":1,"options":[]}\n',
        b'{"type":"classes"}\n',
        b'{"type":"handle","handling":"discard"}\n',
        b'{"type":"handle","handling":"swap","program":"p"}\n',
        b'{"type":"positions","number":1,"leases":[]}\n',
        b'{"type":"positions","number":1,"leases":[7]}\n',
        b'{"type":"classes","classes":[{}]}\n',
        b"x" * (LINE_BYTES_MAX + 1),
    ],
)
def test_an_agent_that_does_not_speak_the_protocol_is_disconnected_and_another_is_served(
    engine: Engine, said: bytes
) -> None:
    agent = engine.agent()
    agent.hear("hello")
    agent.socket.sendall(said)
    assert agent.is_hung_up_on()
    other = engine.agent()
    assert other.hear("hello")
    other.close()


def test_a_line_of_the_greatest_length_is_read(engine: Engine) -> None:
    agent = engine.agent()
    message = {"type": "options", "number": 1, "options": {"x": ""}}
    message["options"] = {"x": "y" * (LINE_BYTES_MAX - len(json.dumps(message)))}
    agent.say(**message)
    eventually(lambda: engine.mailbox.waits() == 1)
    agent.close()


def test_the_socket_is_this_accounts_alone_and_goes_with_the_engine() -> None:
    with TemporaryDirectory(prefix="sy-", dir="/tmp") as folder:
        engine = Engine(folder)
        path = Path(engine.channel.path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        engine.channel.stop()
        assert not path.exists()


def test_what_a_dead_engine_left_is_replaced_and_nothing_else_is() -> None:
    with TemporaryDirectory(prefix="sy-", dir="/tmp") as folder:
        path = f"{folder}/engine.sock"
        dead = listen(path)
        dead.close()
        alive = listen(path)
        with pytest.raises(OSError, match="another engine listens"):
            listen(path)
        alive.close()
        file = f"{folder}/file"
        Path(file).write_text("mine", encoding="utf-8")
        with pytest.raises(OSError, match="is no socket"):
            listen(file)


def test_records_after_a_number_come_in_order_and_no_more_than_asked() -> None:
    buffer = RecordBuffer(records_max=3)
    for name in ("a", "b", "c", "d"):
        buffer.publish(record(name))
    assert [number for number, _ in buffer.after(0, 9)] == [2, 3, 4]
    assert [number for number, _ in buffer.after(2, 1)] == [3]
    assert buffer.after(4, 9) == []
    buffer.acknowledge(3)
    assert [number for number, _ in buffer.after(0, 9)] == [4]
    buffer.acknowledge(9)
    assert len(buffer) == 0
