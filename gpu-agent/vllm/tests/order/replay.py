"""Replays what the TypeScript order recorded: orders exactly, numbers to 1e-9 of their size.

lab/golden/record-trace.ts documents the lines. `python -m order.replay` replays traces that come on stdin one after another:
each is its header, its lines and an empty line, and is answered by a line of JSON, `{"ok": true}` or the first mismatch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

from switchyard_vllm.handling.waste import MemoryCosts, TimeCurve, ToolChance
from switchyard_vllm.order.call_state import Call, CallState
from switchyard_vllm.order.class_tables import CLASSES_PER_MESSAGE_MAX, ClassTables
from switchyard_vllm.order.forecast import CallForecast
from switchyard_vllm.order.policies import create_policy
from switchyard_vllm.order.policy import NEVER_US, EngineMemory
from switchyard_vllm.order.program_order import ProgramOrder, StepCharge, StepShare
from switchyard_vllm.order.seating import SeatingConfig
from switchyard_vllm.order.service import ServiceRates, ServiceTokens
from switchyard_vllm.order.tenant_shares import TenantShares

TRACE_VERSION = 2
TOLERANCE = 1e-9


class MismatchError(Exception):
    pass


class Replay:
    def __init__(self, header: dict[str, Any]) -> None:
        self._expect("trace version", header["trace"], TRACE_VERSION)
        self._reading = header["ordering"]
        self._rates = ServiceRates(**header["rates"])
        self._classes = ClassTables()
        memory = header.get("memory")
        self._memory = None if memory is None else _memory(memory)
        self.shares = TenantShares()
        policy = self._policy(header["policy"])
        self.order = ProgramOrder(_seating(header), policy, self.shares, self._reading, self._rates)
        self.decisions = 0
        self._seated: list[str] = []
        self._ranks: dict[str, float] = {}
        #: Charged since the last settling.
        self._charges: list[StepCharge] = []
        self._handlers: dict[str, Callable[[dict[str, Any], int], None]] = {
            "arrive": self._arrive,
            "resident": self._resident,
            "seated": self._decide,
            "charges": self._charge,
            "ended": self._end,
            "settled": self._settle,
            "reconfigured": self._reconfigure,
            "classes": self._learn,
            "positions": self._tell_positions,
        }

    def line(self, line: dict[str, Any]) -> None:
        """Raises MismatchError."""
        kind = next(kind for kind in self._handlers if kind in line)
        self._handlers[kind](line, line["t"])
        self._ranks.update(line.get("ranks", {}))
        for lease, rank in self._ranks.items():
            self._expect(f"rank of {lease}", self._call(lease).place.rank, rank)

    def _arrive(self, line: dict[str, Any], t: int) -> None:
        lease, tenant, weight, program, class_, sequence, *told = line["arrive"]
        settled_us, elsewhere_us, path_us, wait_us, output_tokens, prompt, resident, *objective = told
        call = Call(
            lease=lease,
            tenant=tenant,
            tenant_weight=weight,
            program=program,
            settled_service_us=settled_us,
            critical_path_us=path_us,
            program_wait_us=wait_us,
            prompt_tokens=prompt,
            open_elsewhere_us=elsewhere_us,
            program_output_tokens=output_tokens,
            program_class=class_,
            objective=objective[0] if objective else None,
            sequence=None if sequence is None else (sequence[0], sequence[1]),
            comes_back=sequence is not None,
            offline=line.get("offline", False),
            forecast=_forecast(line.get("forecast")),
            program_weight=line.get("program_weight", 1.0),
        )
        self.order.arrive(call, t, resident)

    def _resident(self, line: dict[str, Any], t: int) -> None:
        lease, tokens, *device_tokens = line["resident"]
        self.order.resident(self._call(lease), tokens, t, *device_tokens)

    def _decide(self, line: dict[str, Any], t: int) -> None:
        self.decisions += 1
        order = [state.call.lease for state in self.order.decide(t)]
        if line["seated"] is not None:
            self._seated = line["seated"]
        if order != self._seated:
            raise MismatchError(f"seated: {order} here, {self._seated} in the trace")
        for tenant, usage_us in line.get("usage", {}).items():
            self._expect(f"recent service of {tenant}", self.shares.recent_service_us(tenant, t), usage_us)

    def _charge(self, line: dict[str, Any], t: int) -> None:
        for lease, uncached, cached, output_tokens, modelled_us in line["charges"]:
            state = self._call(lease)
            before_us = state.service_modelled_us
            share = StepShare(state, ServiceTokens(uncached, cached, output_tokens))
            self._charges += self.order.charge([share], line["wall"], t)
            self._expect(f"charge of {lease}", state.service_modelled_us - before_us, modelled_us)

    def _end(self, line: dict[str, Any], t: int) -> None:
        lease = line["ended"]
        state = self._call(lease)
        self.order.ended(state, t)
        self._ranks.pop(lease, None)
        sums = (state.service_wall_us, state.service_modelled_us, state.output_tokens)
        for name, actual, expected in zip(("wall", "modelled", "output tokens"), sums, line["sums"], strict=True):
            self._expect(f"{name} of {lease}", actual, expected)

    def _settle(self, line: dict[str, Any], t: int) -> None:
        charges, self._charges = self._charges, []
        self.order.settle(charges, t)
        going = [charge[0].call.lease for charge in charges if not charge[0].ended]
        if going != [lease for lease, _ in line["settled"]]:
            raise MismatchError(f"settled: {going} here, {line['settled']} in the trace")
        for lease, due_us in line["settled"]:
            self._expect(f"due of {lease}", _finite(self.order.policy.due_us(self._call(lease).place)), due_us)

    def _reconfigure(self, line: dict[str, Any], t: int) -> None:
        self.order.reconfigure(_seating(line), self._policy(line["reconfigured"]), t)

    def _learn(self, line: dict[str, Any], _t: int) -> None:
        told = line["classes"]
        for begin in range(0, len(told), CLASSES_PER_MESSAGE_MAX):
            if not self._classes.take(told[begin : begin + CLASSES_PER_MESSAGE_MAX]):
                raise MismatchError("the tables are refused here")

    def _tell_positions(self, line: dict[str, Any], _t: int) -> None:
        leases = list(line["positions"])
        told = self.order.positions(self._call(lease) for lease in leases)
        for lease, position in zip(leases, told, strict=True):
            if list(position) != line["positions"][lease]:
                raise MismatchError(f"position of {lease}: {position} here, {line['positions'][lease]} in the trace")

    def _policy(self, config: dict[str, Any]) -> Any:
        parameters = dict(config)
        name = parameters.pop("name")
        return create_policy(name, parameters, self._reading, self._rates, self._classes, self._memory)

    def _call(self, lease: str) -> CallState:
        state = self.order.get(lease)
        if state is None:
            raise MismatchError(f"{lease} is not open here")
        return state

    def _expect(self, what: str, actual: float | None, expected: float | None) -> None:
        if not close(actual, expected):
            raise MismatchError(f"{what}: {actual} here, {expected} in the trace")


def _memory(told: dict[str, Any]) -> EngineMemory:
    costs = told["costs"]
    swap = None if costs["swap"] is None else TimeCurve(**costs["swap"])
    known = MemoryCosts(TimeCurve(**costs["forward"]), swap, costs["kv_bytes_per_token"])
    return EngineMemory(known, told["step_us"], told["other_tokens"])


def _forecast(told: list[Any] | None) -> CallForecast | None:
    if told is None:
        return None
    output_tokens, tools, confidence = told
    return CallForecast(output_tokens, tuple(ToolChance(*tool) for tool in tools), confidence)


def _seating(limits: dict[str, Any]) -> SeatingConfig:
    names = ("seats", "shares_interval_us", "steps_per_decision", "preemptions_per_decision_max")
    return SeatingConfig(**{name: limits[name] for name in names}, standby=limits.get("standby", "in_order"))


def close(actual: float | None, expected: float | None) -> bool:
    if actual is None or expected is None:
        return actual is expected
    return actual == expected or abs(actual - expected) <= TOLERANCE * max(1.0, abs(expected))


def _finite(value: float) -> float | None:
    return None if value == NEVER_US else value


def replay(lines: Iterable[str]) -> Replay:
    """A whole trace. Raises MismatchError, which names the line."""
    header, *others = lines
    replayed = Replay(json.loads(header))
    for number, text in enumerate(others, start=2):
        try:
            replayed.line(json.loads(text))
        except (MismatchError, AssertionError) as error:
            raise MismatchError(f"line {number}: {text[:300]}\n{type(error).__name__}: {error}") from error
    return replayed


def main() -> None:
    trace: list[str] = []
    for text in sys.stdin:
        if text.strip():
            trace.append(text)
            continue
        try:
            replay(trace)
            answer: dict[str, Any] = {"ok": True}
        except Exception as error:
            # What is no mismatch is a failure of the order or of the replay, and the other side wants to see it too.
            known = isinstance(error, MismatchError)
            answer = {"ok": False, "mismatch": str(error) if known else f"{type(error).__name__}: {error}"}
        trace.clear()
        print(json.dumps(answer), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
