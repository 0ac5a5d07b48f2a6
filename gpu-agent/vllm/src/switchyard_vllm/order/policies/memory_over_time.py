"""How much memory a call takes over how long, in token-seconds: the area under the curve of LAMPS' Figure 4.

The same as `gpu-agent/engine/order/policies/lamps/memory-over-time.ts`, which holds the reasons.
"""

from __future__ import annotations

from ...handling.waste import Handling, Waste, wasted_by
from ..policy import EngineMemory

_US_PER_S = 1e6


def memory_over_time(
    prompt_tokens: int,
    missing_tokens: int,
    output_tokens: int,
    output_tokens_left: float,
    tool: tuple[Handling, Waste] | None,
    memory: EngineMemory,
) -> float:
    """`missing_tokens`: of the prompt, those to be computed. `tool` None: none is expected."""
    costs = memory.costs
    prefill = costs.forward.us(missing_tokens) * prompt_tokens
    context_tokens = prompt_tokens + output_tokens
    decode = memory.step_us * (
        output_tokens_left * context_tokens + (output_tokens_left * (output_tokens_left + 1)) / 2
    )
    wasted_byte_s = 0.0 if tool is None else wasted_by(tool[1], tool[0]) or 0.0
    return (prefill + decode) / _US_PER_S + wasted_byte_s / costs.kv_bytes_per_token
