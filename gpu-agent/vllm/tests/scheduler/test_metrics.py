"""The plug-in's figures on their way to /metrics: through vLLM's own statistics and their encoding, into Prometheus."""

from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import REGISTRY
from vllm.v1.engine import EngineCoreOutputs
from vllm.v1.serial_utils import MsgpackDecoder, MsgpackEncoder

from switchyard_vllm import ProgramAwareScheduler
from switchyard_vllm.engine_counts import EngineCounts, take_counts
from switchyard_vllm.stat_logger import ProgramStatLogger

from .harness import Engine
from .loads import short_and_long

PLAS: dict[str, Any] = {"policy": "plas", "quantum_s": 0.01, "levels": 4}


class OverTheWire(Engine):
    """Hands what vLLM would send to its API process to our logger there."""

    def __init__(self, name: str) -> None:
        super().__init__(ProgramAwareScheduler, seats=2, switchyard=PLAS)
        scheduler = self.scheduler
        scheduler._switchyard_counts = EngineCounts(scheduler.switchyard_meter, heard=True)
        self.labels = {"model_name": name, "engine": "0"}
        scheduler.vllm_config.model_config.served_model_name = name
        self.logger = ProgramStatLogger(scheduler.vllm_config, 0)
        self.encoder, self.decoder = MsgpackEncoder(), MsgpackDecoder(EngineCoreOutputs)
        self.waiting: list[float] = []

    def update(self) -> None:
        sent: list[Any] = []
        real = self.scheduler.make_stats

        def make_stats(*given: Any, **named: Any) -> Any:
            sent.append(real(*given, **named))
            return sent[-1]

        self.scheduler.make_stats = make_stats
        super().update()
        del self.scheduler.make_stats
        for stats in sent:
            message = EngineCoreOutputs(scheduler_stats=stats)
            arrived = self.decoder.decode(self.encoder.encode(message)).scheduler_stats
            self.logger.record(arrived, None)
            assert take_counts(arrived) == {}, "vLLM's own loggers see nothing of it"
        levels = (self.value("switchyard_vllm_waiting_calls", level=str(level)) for level in range(PLAS["levels"]))
        self.waiting.append(sum(levels))

    def value(self, name: str, **labels: str) -> float:
        return REGISTRY.get_sample_value(name, {**self.labels, **labels}) or 0


def test_figures_arrive_and_add_up() -> None:
    engine = OverTheWire("adds-up")
    engine.run(short_and_long(3))
    status = engine.scheduler.switchyard_meter.mailbox.status()
    assert engine.value("switchyard_vllm_decisions_total") == status["decisions"] > 100
    assert engine.value("switchyard_vllm_steps_total") == status["steps"] > 100
    by_reason = [
        engine.value("switchyard_vllm_preemptions_total", reason=reason) for reason in ("seats", "memory", "vllm")
    ]
    ours = [status[f"preemptions_{name}"] for name in ("for_seats", "for_memory", "by_vllm")]
    assert by_reason == ours
    assert by_reason[0] > 0
    for name in ("swapped_out_tokens", "swapped_in_tokens", "recomputed_tokens"):
        assert engine.value(f"switchyard_vllm_{name}_total") == status[name]
    assert status["recomputed_tokens"] > 0
    assert engine.value("switchyard_vllm_decision_seconds_total") == pytest.approx(status["decision_us"] / 1e6)
    assert status["decision_us"] > 0
    assert engine.value("switchyard_vllm_programs") == status["programs"] == 56
    assert max(engine.waiting) > 0
    assert engine.waiting[-1] == 0
    assert engine.value("switchyard_vllm_failures_total") == 0


def test_what_the_swap_costs_and_whether_it_works_is_shown() -> None:
    engine = OverTheWire("swap-costs")
    shown = {"base_us": 900.0, "save_us_per_token": 1.25, "restore_us_per_token": 2.5, "recompute_us_per_token": 72.0}
    costs = SimpleNamespace(as_dict=lambda: {**shown, "measured": True})
    engine.scheduler.switchyard_meter.swap = SimpleNamespace(costs=costs, declined=3, failed=True)
    engine.run(short_and_long(1))
    of = ("transfer", "token_out", "token_back", "token_computed")
    seconds = [engine.value("switchyard_vllm_swap_cost_seconds", of=one) for one in of]
    assert seconds == pytest.approx([us / 1e6 for us in shown.values()])
    assert engine.value("switchyard_vllm_swap_declined_total") == 3
    assert engine.value("switchyard_vllm_swap_failed") == 1


def test_nothing_travels_where_no_logger_is_installed() -> None:
    engine = Engine(ProgramAwareScheduler, switchyard=PLAS)
    engine.scheduler._switchyard_counts = EngineCounts(engine.scheduler.switchyard_meter, heard=False)
    engine.add("a")
    engine.run()
    assert take_counts(engine.scheduler.make_stats()) == {}
