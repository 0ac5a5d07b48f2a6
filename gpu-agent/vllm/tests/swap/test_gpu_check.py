"""The check of a GPU says what is missing before it takes a quarter of an hour, and its figures are of what they name."""

import itertools
import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from gpu_check.channel import Channel
from gpu_check.machine import GIB, memory_missing
from gpu_check.plays import LOADED_ENGINES, LOADED_PLAYS, LOADED_PROGRAMS, loaded_run
from gpu_check.programs import TOOLS, programs_of
from gpu_check.report import counts, equal_calls, latencies, ratios

from switchyard_vllm.identity import identity_of
from switchyard_vllm.order.policies import POLICY_NAMES


def test_memory_that_is_too_small_or_held_by_others_is_named() -> None:
    h100 = int(79.2 * GIB)
    assert memory_missing(int(78.7 * GIB), h100, 120 * GIB) is None
    assert memory_missing(int(78.7 * GIB), h100, None) is None
    held = memory_missing(40 * GIB, h100, 120 * GIB)
    assert held is not None
    assert "40.0 of the GPU's 79.2 GiB" in held
    assert "85% must be" in held
    small = memory_missing(int(15.5 * GIB), 16 * GIB, 120 * GIB)
    assert small is not None
    assert "--parts exact" in small
    host = memory_missing(int(78.7 * GIB), h100, 30 * GIB)
    assert host is not None
    assert "The host has 30.0 GiB" in host


def test_every_play_is_of_a_known_policy_and_compares_with_vllms_own_order() -> None:
    for engine, plays in LOADED_PLAYS.items():
        assert {policy for _, policy in plays if policy is not None} <= set(POLICY_NAMES)
        # One vLLM has the plug-in or has not.
        assert len({policy is None for _, policy in plays}) == 1
        assert engine in LOADED_ENGINES
    assert {part for part, _ in LOADED_PLAYS["vLLM"]} == set(LOADED_PROGRAMS)
    names = [
        (play["part"], play["name"])
        for engine in LOADED_ENGINES
        for play in loaded_run(engine, list(LOADED_PROGRAMS), False, [])["plays"]
    ]
    assert len(names) == len(set(names))
    quick = loaded_run("swap", ["tools"], True, [])["plays"]
    assert {play["part"] for play in quick} == {"tools"}
    assert all(play["programs"]["programs"] < LOADED_PROGRAMS["tools"]["programs"] for play in quick)


def test_programs_are_the_same_for_the_same_seed_and_hold_to_their_kind() -> None:
    once = programs_of("tools", seed=4, programs=60, per_s=6.0)
    assert once == programs_of("tools", seed=4, programs=60, per_s=6.0)
    assert once != programs_of("tools", seed=5, programs=60, per_s=6.0)
    assert {program.kind for program in once} == set(TOOLS)
    assert len({program.turns[0].new_tokens[:200] for program in once}) == 1
    for program in once:
        kind = TOOLS[program.kind]
        assert kind.calls[0] <= len(program.turns) <= kind.calls[1]
        assert program.turns[0].tool_s == 0
        assert kind.tool_s is not None
        assert all(kind.tool_s[0] <= turn.tool_s <= kind.tool_s[1] for turn in program.turns[1:])


def test_what_is_told_of_a_call_is_read_as_an_agents_forecast() -> None:
    programs = programs_of("tools", seed=4, programs=60, per_s=6.0)
    kind = TOOLS["build"]
    longest = next(one for one in programs if one.kind == "build" and len(one.turns) == kind.calls[1])
    told = [identity_of(None, {"switchyard_forecast": turn.forecast}, "agent") for turn in longest.turns]
    forecasts = [identity.forecast for identity in told]
    assert all(forecast is not None and forecast.output_tokens == 110 for forecast in forecasts)
    # 3, 4 or 5 calls, alike: a tool follows the third of two in three, and the fourth of one in two.
    assert [round(forecast.follows, 2) for forecast in forecasts if forecast] == [1, 1, 0.67, 0.5, 0]
    first = forecasts[0]
    assert first is not None
    assert first.tool_us == 3_250_000


def told_play(latencies_ms: dict[str, float], makespan_s: float) -> dict[str, Any]:
    programs = [
        {
            "name": f"{kind}-0",
            "kind": kind,
            "token_latency_ms": latency_ms,
            "returned": {"tokens": 100, "cached_tokens": 40},
        }
        for kind, latency_ms in latencies_ms.items()
    ]
    status: dict[str, Any] = {"records": [], "status_before": {}, "status": {}, "waiting": []}
    return {"programs": programs, "makespan_s": makespan_s, **status}


def test_ratios_name_the_kind_that_pays_most() -> None:
    stock = latencies(told_play({"chat": 100.0, "long": 20.0}, 50.0))
    row = latencies(told_play({"chat": 30.0, "long": 30.0}, 55.0))
    assert row["cached_on_return"] == 0.4
    assert ratios(row, stock) == {"mean": 0.5, "worst_kind": 1.5, "makespan": 1.1}


def test_counts_are_what_the_play_added_to_those_of_the_engine() -> None:
    def status(steps: int, decided: int) -> dict[str, Any]:
        swap = {"decided": decided, "returned": decided, "context_tokens": 10 * decided, "cached_tokens": 9 * decided}
        tools = {"preserve": {}, "discard": {}, "swap": swap, "relieved": decided, "swap_us": 5}
        return {"steps": steps, "decisions": steps, "decision_us": 200 * steps, "failures": 0, "tools": tools}

    told = told_play({"chat": 10.0}, 2.0) | {
        "records": [{"preemptions": 2, "swapped_in_tokens": 64}, {"preemptions": 1}],
        "status_before": status(1000, 7),
        "status": status(1100, 10),
        "waiting": [4, 8, 0],
    }
    row = counts(told)
    assert (row["steps"], row["decision_us_per_step"], row["decision_share"]) == (100, 200, 0.01)
    assert (row["preemptions"], row["swapped_in_tokens"]) == (3, 64)
    assert row["waiting"] == {"mean": 4.0, "most": 8}
    assert row["contexts"]["swap"] == {"decided": 3, "returned": 3, "context_tokens": 30, "cached_tokens": 27}
    assert row["contexts"]["relieved"] == 3
    assert row["failures"] == 0
    # A policy that decides nothing, and a vLLM without the plug-in.
    assert counts(told | {"status_before": status(1000, 10)})["contexts"] == {}
    assert counts(told_play({"chat": 10.0}, 2.0)) == {}


def test_calls_with_other_tokens_are_counted() -> None:
    assert equal_calls({"a": [[1, 2], [3]]}, {"a": [[1, 2], [4]]}) == {"calls": 2, "equal_calls": 1}


class Engine:
    """The engine's end of a side channel."""

    def __init__(self, path: str) -> None:
        self.heard: list[dict[str, Any]] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(1)
        self.thread = Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            for line in connection.makefile("r"):
                message = json.loads(line)
                self.heard.append(message)
                for answer in self.answers(message):
                    self._say(connection, answer)
                if message["type"] == "options":
                    Thread(
                        target=self._tell_status, args=(connection, message["options"]["policy"]), daemon=True
                    ).start()

    def _tell_status(self, connection: socket.socket, policy: str) -> None:
        """Again and again, of one call that ends."""
        with suppress(OSError):
            for running in itertools.chain([1, 1], itertools.repeat(0)):
                self._say(connection, {"type": "status", "policy": policy, "waiting": 0, "running": running})
                time.sleep(0.02)

    @staticmethod
    def _say(connection: socket.socket, message: dict[str, Any]) -> None:
        connection.sendall(json.dumps(message).encode() + b"\n")

    def answers(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        if message["type"] != "options":
            return []
        number, policy = message["number"], message["options"]["policy"]
        if policy == "unheard-of":
            return [{"type": "refused", "number": number, "reason": "no such policy"}]
        # A verdict on an older wish is not this one's.
        return [
            {"type": "refused", "number": number - 1, "reason": "old"},
            {"type": "record", "number": 5, "lease": "a"},
            {"type": "applied", "number": number, "policy": policy},
        ]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[tuple[Engine, Channel]]:
    path = str(tmp_path / "engine.sock")
    engine = Engine(path)
    channel = Channel(path)
    yield engine, channel
    channel.close()
    engine.thread.join(10)


def test_the_policy_is_changed_over_the_side_channel_and_a_refusal_is_no_play(engine: tuple[Engine, Channel]) -> None:
    served, channel = engine
    channel.ask({"policy": "lamps"})
    channel.verdict()
    channel.wait_until_idle()
    assert channel.status["policy"] == "lamps"
    assert channel.status["running"] == 0
    assert [record["lease"] for record in channel.records] == ["a"]
    channel.tell_classes([{"class": str(index)} for index in range(5)])
    channel.ended("t/p")
    channel.ask({"policy": "unheard-of"})
    with pytest.raises(ValueError, match="no such policy"):
        channel.verdict()
    types = [message["type"] for message in served.heard]
    assert types == ["hello", "options", "ack", "classes", "classes", "handle", "options"]
    assert [len(message["classes"]) for message in served.heard if message["type"] == "classes"] == [4, 1]
