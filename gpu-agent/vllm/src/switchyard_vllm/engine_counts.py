"""How the plug-in's counts get from the engine's process to the one that serves /metrics (stat_logger.py).

vLLM sends its `SchedulerStats` over once a step, as msgpack of declared fields. Other fields are lost.
One declared field is an open table of integers, and vLLM reads only the keys that it knows in it: ours travel there under a
prefix, and our logger, which vLLM asks before its own, takes them out. Counters travel as what was added since the last time,
since vLLM gives each step's statistics to one of several API processes. Nothing is sent where the logger is not installed.
"""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from typing import Any

from .call_meter import CallMeter
from .handling.waste import HANDLINGS

LOGGER_GROUP = "vllm.stat_logger_plugins"
LOGGER_NAME = "switchyard"
FIELD = "num_kv_fetch_reqs_by_stage"
PREFIX = "switchyard:"
LEVEL_PREFIX = "waiting_at_level:"

COUNTERS = (
    "steps",
    "decision_us",
    "decisions",
    "preemptions_for_seats",
    "preemptions_for_memory",
    "preemptions_by_vllm",
    "swapped_out_tokens",
    "swapped_in_tokens",
    "recomputed_tokens",
    "swap_us",
    "swap_declined",
    "malformed_tickets",
    "lost_steps",
    "failures",
)
GAUGES = ("programs", "failed", "swap_failed")
#: Of `holds` in the status.
HOLD_PREFIX = "holds:"
HOLD_COUNTERS = ("returned", "given_up", "expired", "held_back")
HOLD_GAUGE = "contexts"
#: Of `tools` in the status, then the handling and the count of it.
TOOL_PREFIX = "tools:"
HANDLED_COUNTERS = ("decided", "returned", "context_tokens", "cached_tokens")
TOOL_COUNTERS = ("relieved", "revised", "prefetched", "displaced", "expired", "swap_us")
TOOL_GAUGE = "away"
#: Of the swap, in nanoseconds: the table takes whole numbers.
SWAP_COST_PREFIX = "swap_cost_ns:"
SWAP_COSTS = {
    "base_us": "transfer",
    "save_us_per_token": "token_out",
    "restore_us_per_token": "token_back",
    "recompute_us_per_token": "token_computed",
}


class EngineCounts:
    def __init__(self, meter: CallMeter, heard: bool | None = None) -> None:
        self._meter = meter
        self._heard = logger_is_installed() if heard is None else heard
        self._told: dict[str, int] = {}

    def stop(self) -> None:
        self._heard = False

    def put_into(self, stats: Any) -> None:
        """Of the latest status, once. `stats` None: vLLM's statistics are off."""
        if stats is None or not self._heard or not self._meter.take_news():
            return
        status = self._meter.mailbox.status()
        table = getattr(stats, FIELD)
        for name in COUNTERS:
            count = int(status.get(name, 0))
            table[PREFIX + name] = count - self._told.get(name, 0)
            self._told[name] = count
        holds, tools = status.get("holds", {}), status.get("tools", {})
        nested = {HOLD_PREFIX + name: holds.get(name, 0) for name in HOLD_COUNTERS}
        nested |= {TOOL_PREFIX + name: tools.get(name, 0) for name in TOOL_COUNTERS}
        for handling in HANDLINGS:
            of = tools.get(handling, {})
            nested |= {f"{TOOL_PREFIX}{handling}:{name}": of.get(name, 0) for name in HANDLED_COUNTERS}
        for key, count in nested.items():
            table[PREFIX + key] = int(count) - self._told.get(key, 0)
            self._told[key] = int(count)
        table[PREFIX + HOLD_PREFIX + HOLD_GAUGE] = int(holds.get(HOLD_GAUGE, 0))
        table[PREFIX + TOOL_PREFIX + TOOL_GAUGE] = int(tools.get(TOOL_GAUGE, 0))
        for name in GAUGES:
            table[PREFIX + name] = int(status.get(name, 0))
        for name, what in SWAP_COSTS.items() if "swap_costs" in status else ():
            table[f"{PREFIX}{SWAP_COST_PREFIX}{what}"] = round(status["swap_costs"][name] * 1000)
        for level, waiting in status.get("waiting_by_level", {}).items():
            table[f"{PREFIX}{LEVEL_PREFIX}{level}"] = waiting


def take_counts(stats: Any) -> dict[str, int]:
    """What `put_into` put there, which is there no longer. Empty: nothing was."""
    table: dict[str, int] = getattr(stats, FIELD, None) or {}
    names = [name for name in table if name.startswith(PREFIX)]
    return {name.removeprefix(PREFIX): table.pop(name) for name in names}


def logger_is_installed() -> bool:
    """Whether vLLM loads our logger: the package is installed with its entry point, and VLLM_PLUGINS does not leave it out."""
    allowed = os.environ.get("VLLM_PLUGINS")
    if allowed is not None and LOGGER_NAME not in allowed.split(","):
        return False
    return any(one.name == LOGGER_NAME for one in entry_points(group=LOGGER_GROUP))
