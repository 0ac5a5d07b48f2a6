"""The plug-in's figures on vLLM's own /metrics: an entry point of `vllm.stat_logger_plugins`, loaded in the API process.

The metrics appear with the first figures, so a vLLM that runs another scheduler in this environment shows none.
"""

from __future__ import annotations

from functools import cache
from typing import Any, get_args

from prometheus_client import Counter, Gauge
from vllm.v1.metrics.loggers import StatLoggerBase

from .engine_counts import (
    HOLD_GAUGE,
    HOLD_PREFIX,
    LEVEL_PREFIX,
    SWAP_COST_PREFIX,
    TOOL_GAUGE,
    TOOL_PREFIX,
    take_counts,
)
from .handling.program_hold import Ending
from .handling.waste import HANDLINGS

LABELS = ("model_name", "engine")
_COUNTERS = {
    "steps": ("switchyard_vllm_steps", "Engine steps that were scheduled."),
    "decisions": ("switchyard_vllm_decisions", "Decisions about who sits."),
    "swapped_out_tokens": ("switchyard_vllm_swapped_out_tokens", "KV tokens of preempted calls that left the GPU."),
    "swapped_in_tokens": ("switchyard_vllm_swapped_in_tokens", "KV tokens of preempted calls that came back."),
    "recomputed_tokens": (
        "switchyard_vllm_recomputed_tokens",
        "KV tokens of preempted calls that were computed again.",
    ),
    "swap_declined": (
        "switchyard_vllm_swap_declined",
        "Contexts that got no image: moving them out did not pay, or there was no room.",
    ),
    "malformed_tickets": ("switchyard_vllm_malformed_tickets", "Calls whose ticket could not be read."),
    "lost_steps": ("switchyard_vllm_lost_steps", "Steps whose outcome never came."),
    "failures": ("switchyard_vllm_failures", "Exceptions in the plug-in."),
}
_GAUGES = {
    "programs": ("switchyard_vllm_programs", "Programs in the engine's process table."),
    "failed": ("switchyard_vllm_failed", "1: the plug-in failed, and vLLM schedules by itself."),
    "swap_failed": ("switchyard_vllm_swap_failed", "1: the KV swap failed, and preempted calls are computed again."),
}
_REASONS = {"preemptions_for_seats": "seats", "preemptions_for_memory": "memory", "preemptions_by_vllm": "vllm"}


class Metrics:
    def __init__(self) -> None:
        self.counters = {key: Counter(name, text, LABELS) for key, (name, text) in _COUNTERS.items()}
        self.gauges = {
            key: Gauge(name, text, LABELS, multiprocess_mode="mostrecent") for key, (name, text) in _GAUGES.items()
        }
        self.decision_seconds = Counter("switchyard_vllm_decision_seconds", "Time in the plug-in's own code.", LABELS)
        self.swap_seconds = Counter(
            "switchyard_vllm_swap_seconds", "Time for which steps waited for KV to be moved.", LABELS
        )
        self.preemptions = Counter(
            "switchyard_vllm_preemptions", "Preemptions: for a seat, for memory, by vLLM itself.", (*LABELS, "reason")
        )
        self.holds = Counter(
            "switchyard_vllm_holds",
            "Contexts of programs whose tools ran that were held, by how that ended.",
            (*LABELS, "end"),
        )
        self.held_back = Counter(
            "switchyard_vllm_held_back", "Decisions in which a call waited for what was held.", LABELS
        )
        self.held_contexts = Gauge(
            "switchyard_vllm_held_contexts",
            "Contexts of programs whose tools run that are held.",
            LABELS,
            multiprocess_mode="mostrecent",
        )
        handled = (*LABELS, "handling")
        self.handled = {
            "decided": Counter("switchyard_vllm_tool_contexts", "Contexts of programs whose tools ran.", handled),
            "returned": Counter("switchyard_vllm_tool_returns", "Of them, whose programs came back.", handled),
            "context_tokens": Counter(
                "switchyard_vllm_tool_return_tokens", "Tokens that calls which came back go on from.", handled
            ),
            "cached_tokens": Counter(
                "switchyard_vllm_tool_return_cached_tokens", "Of them, those whose KV was at hand.", handled
            ),
        }
        self.tool_events = Counter(
            "switchyard_vllm_tool_context_events",
            "What became of contexts later: relieved (a pin gave way), revised, prefetched, displaced, expired.",
            (*LABELS, "event"),
        )
        self.tool_swap_seconds = Counter(
            "switchyard_vllm_tool_swap_seconds", "Time that moving contexts of programs whose tools run took.", LABELS
        )
        self.tool_contexts_away = Gauge(
            "switchyard_vllm_tool_contexts_away",
            "Contexts whose tools run.",
            LABELS,
            multiprocess_mode="mostrecent",
        )
        self.swap_cost_seconds = Gauge(
            "switchyard_vllm_swap_cost_seconds",
            "What the choice between swap and recompute goes by.",
            (*LABELS, "of"),
            multiprocess_mode="mostrecent",
        )
        self.waiting = Gauge(
            "switchyard_vllm_waiting_calls", "Calls that wait.", (*LABELS, "level"), multiprocess_mode="mostrecent"
        )


@cache
def metrics() -> Metrics:
    """One set in a process, however many engines it speaks with."""
    return Metrics()


class ProgramStatLogger(StatLoggerBase):
    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
        self._labels = (str(vllm_config.model_config.served_model_name), str(engine_index))
        self._levels: set[str] = set()

    def record(
        self,
        scheduler_stats: Any,
        iteration_stats: Any,
        mm_cache_stats: Any = None,
        engine_idx: int = 0,
    ) -> None:
        counts = {} if scheduler_stats is None else take_counts(scheduler_stats)
        if counts:
            self._observe(metrics(), counts)

    def log_engine_initialized(self) -> None:
        pass

    def _observe(self, to: Metrics, counts: dict[str, int]) -> None:
        labels = self._labels
        for name, counter in to.counters.items():
            counter.labels(*labels).inc(counts.get(name, 0))
        for name, gauge in to.gauges.items():
            gauge.labels(*labels).set(counts.get(name, 0))
        to.decision_seconds.labels(*labels).inc(counts.get("decision_us", 0) / 1e6)
        to.swap_seconds.labels(*labels).inc(counts.get("swap_us", 0) / 1e6)
        for name, reason in _REASONS.items():
            to.preemptions.labels(*labels, reason).inc(counts.get(name, 0))
        for end in get_args(Ending):
            to.holds.labels(*labels, end).inc(counts.get(HOLD_PREFIX + end, 0))
        for name, counter in to.handled.items():
            for handling in HANDLINGS:
                counter.labels(*labels, handling).inc(counts.get(f"{TOOL_PREFIX}{handling}:{name}", 0))
        for event in ("relieved", "revised", "prefetched", "displaced", "expired"):
            to.tool_events.labels(*labels, event).inc(counts.get(TOOL_PREFIX + event, 0))
        to.tool_swap_seconds.labels(*labels).inc(counts.get(TOOL_PREFIX + "swap_us", 0) / 1e6)
        to.tool_contexts_away.labels(*labels).set(counts.get(TOOL_PREFIX + TOOL_GAUGE, 0))
        to.held_back.labels(*labels).inc(counts.get(HOLD_PREFIX + "held_back", 0))
        to.held_contexts.labels(*labels).set(counts.get(HOLD_PREFIX + HOLD_GAUGE, 0))
        for name, cost_ns in counts.items():
            if name.startswith(SWAP_COST_PREFIX):
                to.swap_cost_seconds.labels(*labels, name.removeprefix(SWAP_COST_PREFIX)).set(cost_ns / 1e9)
        prefix = LEVEL_PREFIX
        waiting = {name.removeprefix(prefix): count for name, count in counts.items() if name.startswith(prefix)}
        self._levels |= waiting.keys()
        for level in self._levels:
            to.waiting.labels(*labels, level).set(waiting.get(level, 0))
