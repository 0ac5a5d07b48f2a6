"""What this engine's memory costs, as policies weigh it (order/policy.py): measured while it serves.

    forward      the speed of prefills (prefill_speed.py), and the shortest step of late
    swap         what moving KV takes (swap/swap_costs.py). None: this vLLM does not swap
    step         the mean step of late
    other        what the calls of a batch usually have computed, less one of them

Until something is known, a usual engine's figures stand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from .handling.swap_choice import HandlingCosts
from .handling.waste import MemoryCosts, TimeCurve
from .order.policy import EngineMemory, reference_memory
from .order.program_order import StepShare
from .prefill_speed import PrefillSpeed

#: What a step leaves of the weight of those before it.
STEP_DECAY = 0.98
#: The shortest step is forgotten at this pace.
SHORTEST_GROWTH = 1.001
#: How often the batch is looked at, in steps.
SAMPLE_STEPS = 16


class MeasuredMemory:
    def __init__(self, scheduler: Any, swap_costs: Callable[[], HandlingCosts] | None) -> None:
        self._scheduler = scheduler
        self._swap_costs = swap_costs
        #: One object, which policies keep.
        self.current: EngineMemory = reference_memory()
        self._steps = 0
        self._shortest_us = self.current.costs.forward.base_us
        self._weight = 0.0
        self._step_us = 0.0
        self._other_tokens = 0.0
        self._set_costs(None)

    def computed(self, shares: Sequence[StepShare], wall_us: int, speed: PrefillSpeed) -> None:
        """A step has ended."""
        if not shares or wall_us <= 0:
            return
        self._steps += 1
        self._shortest_us = wall_us if self._steps == 1 else min(self._shortest_us * SHORTEST_GROWTH, wall_us)
        self._weight = self._weight * STEP_DECAY + 1
        self._step_us = self._step_us * STEP_DECAY + wall_us
        if self._steps % SAMPLE_STEPS != 1:
            return
        running = self._scheduler.running
        tokens = sum(int(request.num_computed_tokens) for request in running)
        others = tokens * (len(running) - 1) / len(running) if running else 0
        first = self._steps == 1
        self._other_tokens = others if first else STEP_DECAY * self._other_tokens + (1 - STEP_DECAY) * others
        self.current.step_us = self._step_us / self._weight
        self.current.other_tokens = self._other_tokens
        self._set_costs(speed.us_per_token)

    def _set_costs(self, prefill_us_per_token: float | None) -> None:
        costs = self.current.costs
        forward = replace(costs.forward, base_us=self._shortest_us)
        if prefill_us_per_token is not None:
            forward = replace(forward, per_token_us=prefill_us_per_token)
        swap: TimeCurve | None = None
        if self._swap_costs is not None:
            copies = self._swap_costs()
            per_token_us = (copies.save_us_per_token + copies.restore_us_per_token) / 2
            swap = TimeCurve(copies.base_us, 0, per_token_us, 0)
        self.current.costs = MemoryCosts(forward, swap, self._bytes_per_token())

    def _bytes_per_token(self) -> float:
        groups = self._scheduler.kv_cache_config.kv_cache_groups
        page_bytes = sum(group.kv_cache_spec.page_size_bytes * len(group.layer_names) for group in groups)
        return float(max(1, page_bytes / self._scheduler.block_size))
