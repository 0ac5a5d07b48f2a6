"""`learned-memory`: programs by the memory over time that they are expected to take until they end.

The same as `gpu-agent/engine/order/policies/learned-memory/learned-memory.ts`, which holds the reasons.
"""

from __future__ import annotations

from ...handling.waste import wasted_by
from ..index_table import IndexTable, step_at
from ..policy import ClassLookup, EngineMemory, PolicyCall
from .lamps import Lamps, LampsConfig, LampsPlace, output_of
from .learned import prior_table

#: Of the later work: it is expected of a class, the call's own of the call.
LATER_SHARE = 0.1
_US_PER_S = 1e6


class LearnedMemory(Lamps):
    name = "learned-memory"

    def __init__(self, config: LampsConfig, memory: EngineMemory, classes: ClassLookup | None) -> None:
        super().__init__(config, memory)
        self._classes = classes

    def later_work(self, place: LampsPlace) -> float:
        return LATER_SHARE * self._later_memory(place, self._table_of(place.of))

    def _table_of(self, of: PolicyCall) -> IndexTable:
        call = of.call
        known = None
        if self._classes is not None:
            known = self._classes.table_of(call.tenant, call.program_class, "response")
        return prior_table("response") if known is None else known

    def _later_memory(self, place: LampsPlace, table: IndexTable) -> float:
        """Token-seconds after the call."""
        of, choice, written = place.of, place.choice, place.output_tokens
        forecast = of.call.forecast
        # The thread ends with it.
        if forecast is not None and not forecast.tools:
            return 0
        memory = self._memory
        costs = memory.costs
        call_tokens = max(written, output_of(forecast))
        at_end_tokens = of.program.output_tokens - written + call_tokens
        median_tokens = table.steps[step_at(table, at_end_tokens)].median_tokens
        later_tokens = max(0, median_tokens - at_end_tokens)
        later_prompt_tokens = later_tokens * table.prompt_tokens_per_output_token
        busy_us = later_tokens * memory.step_us + later_prompt_tokens * costs.forward.per_token_us
        context_tokens = of.prompt_tokens + call_tokens + (later_tokens + later_prompt_tokens) / 2
        # A call writes a token at least.
        tools = later_tokens / max(1, table.call_tokens) if table.call_tokens > 0 else 0
        wasted_byte_s = 0.0 if choice is None else wasted_by(choice.waste, choice.handling) or 0.0
        follows = 1 if forecast is None else forecast.follows
        return follows * ((busy_us / _US_PER_S) * context_tokens + (tools * wasted_byte_s) / costs.kv_bytes_per_token)
