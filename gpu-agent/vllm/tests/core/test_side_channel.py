"""The channel to the agent, over real sockets: records until they are acknowledged, options, and whoever misbehaves."""

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

from switchyard_vllm.core.call_state import Measurement
from switchyard_vllm.records import CallRecord, RecordBuffer
from switchyard_vllm.side_channel import LINE_BYTES_MAX, PROTOCOL_VERSION, Mailbox, SideChannel, listen

TIMEOUT_S = 60


def record(name: str) -> CallRecord:
    return CallRecord(name, None, "", "", None, "stop", Measurement(1, 0, 1, 5, 5, 0, 0, 5, 5))


class Agent:
    """What stands at the other end."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect(path)
        self._lines = self.socket.makefile("rb")

    def hear(self, kind: str) -> dict[str, Any]:
        """The next message of a kind; others are passed over."""
        while True:
            line = self._lines.readline()
            if not line:
                raise ConnectionError("the engine hung up")
            message: dict[str, Any] = json.loads(line)
            if message["type"] == kind:
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
