"""What to do with a program's KV while its tool runs: the handling that wastes least memory.

The same choice as `gpu-agent/engine/memory/handling/waste.ts`, which also holds the equations. Waste is in byte-seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

Handling = Literal["preserve", "discard", "swap"]
Pins = Literal["relieved", "firm"]
HANDLINGS: tuple[Handling, ...] = ("preserve", "discard", "swap")

#: A forecast of at least this confidence is believed to name the tool. Below it, all tools that may follow decide together.
TOOL_CONFIDENCE_MIN = 0.7
#: A tool that has lasted so many times as long as predicted is decided again.
REVISE_FACTOR = 2
#: No context is preserved for longer.
PRESERVE_US_MAX = 300_000_000
_US_PER_S = 1e6


@dataclass(frozen=True, slots=True)
class TimeCurve:
    """Time of work on so many tokens: base + per_token * max(0, tokens - free_tokens) + per_pair * tokens^2 / 2."""

    base_us: float
    free_tokens: int
    per_token_us: float
    per_pair_us: float

    def us(self, tokens: float) -> float:
        if tokens <= 0:
            return 0
        pairs_us = (self.per_pair_us * tokens * tokens) / 2
        return self.base_us + self.per_token_us * max(0, tokens - self.free_tokens) + pairs_us


@dataclass(frozen=True, slots=True)
class MemoryCosts:
    """`forward` computes a context, `swap` moves it one way. Without `swap` KV cannot be moved."""

    forward: TimeCurve
    swap: TimeCurve | None
    kv_bytes_per_token: float


@dataclass(frozen=True, slots=True)
class Waste:
    """Byte-seconds. `swap` None: it cannot be swapped."""

    preserve: float
    discard: float
    swap: float | None


@dataclass(frozen=True, slots=True)
class HandlingChoice:
    handling: Handling
    waste: Waste


@dataclass(frozen=True, slots=True)
class HandlingRule:
    """How a policy has contexts handled while tools run."""

    #: What it chooses from. One: always that.
    allowed: tuple[Handling, ...]
    #: Contexts are swapped only as far as moving them hides under the next step (InferCept's swap budget).
    hidden_swaps: bool
    #: A preserved context whose tool exceeds its forecast is decided again. False: it is kept until the bound.
    revises: bool
    #: `relieved`: a pin ends before a call goes without its room. `firm`: calls wait for its room (LAMPS' figure 3).
    pins: Pins = "relieved"


def handling_rule(rule: HandlingRule, changes: Mapping[str, Any]) -> HandlingRule:
    """The rule with parts replaced. Raises TypeError for a part that there is not, ValueError for a value."""
    changed = replace(rule, **{**changes, "allowed": tuple(changes.get("allowed", rule.allowed))})
    if not changed.allowed or any(one not in HANDLINGS for one in changed.allowed):
        raise ValueError(f"allowed is a list of {', '.join(HANDLINGS)}, not {list(changed.allowed)}")
    if changed.pins not in get_args(Pins):
        raise ValueError(f"pins must be one of {', '.join(get_args(Pins))}, not {changed.pins!r}")
    return changed


@dataclass(frozen=True, slots=True)
class ToolChance:
    """A tool that may follow, and how likely it is."""

    probability: float
    duration_us: float


def waste_of(costs: MemoryCosts, context_tokens: float, other_tokens: float, tool_us: float) -> Waste:
    def byte_seconds(us: float, tokens: float) -> float:
        return (us / _US_PER_S) * tokens * costs.kv_bytes_per_token

    batch_tokens = context_tokens + other_tokens
    return Waste(
        preserve=byte_seconds(tool_us, context_tokens),
        discard=byte_seconds(costs.forward.us(context_tokens), batch_tokens),
        swap=None if costs.swap is None else byte_seconds(2 * costs.swap.us(context_tokens), batch_tokens),
    )


def least_waste(waste: Waste, allowed: Sequence[Handling] = HANDLINGS) -> Handling:
    """Of those allowed; of equal ones the one that moves and computes less. Where none of them can be done: discard."""
    wasted: tuple[tuple[Handling, float | None], ...] = (
        ("preserve", waste.preserve),
        ("swap", waste.swap),
        ("discard", waste.discard),
    )
    least: Handling = "discard"
    least_wasted = float("inf")
    for handling, byte_s in wasted:
        if byte_s is not None and byte_s < least_wasted and handling in allowed:
            least = handling
            least_wasted = byte_s
    return least


def wasted_by(waste: Waste, handling: Handling) -> float | None:
    """None: it cannot be done."""
    if handling == "preserve":
        return waste.preserve
    return waste.discard if handling == "discard" else waste.swap


def choose_handling(
    costs: MemoryCosts,
    context_tokens: float,
    other_tokens: float,
    tool_us: float,
    allowed: Sequence[Handling] = HANDLINGS,
) -> HandlingChoice:
    waste = waste_of(costs, context_tokens, other_tokens, tool_us)
    return HandlingChoice(least_waste(waste, allowed), waste)


def expected_tool_us(tools: Sequence[ToolChance], confidence: float) -> float | None:
    """How long the tool after the call is expected to run, the likeliest first.

    None: no tool is expected, or it is believed that none follows.
    """
    if not tools:
        return None
    likeliest = tools[0]
    weighted_us = 0.0
    weight = 0.0
    for tool in tools:
        weighted_us += tool.probability * tool.duration_us
        weight += tool.probability
    if confidence >= TOOL_CONFIDENCE_MIN:
        return None if 1 - weight > likeliest.probability else likeliest.duration_us
    return weighted_us / weight if weight > 0 else likeliest.duration_us


def revise_after_us(tool_us: float) -> float:
    """For how long a preserved context is kept before it is decided again."""
    return min(PRESERVE_US_MAX, REVISE_FACTOR * tool_us)


def revise_handling(
    costs: MemoryCosts,
    context_tokens: float,
    other_tokens: float,
    preserved_us: float,
    allowed: Sequence[Handling] = HANDLINGS,
) -> HandlingChoice:
    """The choice for a context that has been preserved for so long. From PRESERVE_US_MAX on it is preserved no longer."""
    left = [one for one in allowed if one != "preserve" or preserved_us < PRESERVE_US_MAX]
    return choose_handling(costs, context_tokens, other_tokens, preserved_us, left)
