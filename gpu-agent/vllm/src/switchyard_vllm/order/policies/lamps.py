"""`lamps`: LAMPS' Algorithm 1, calls by the memory that they are expected to take over time.

The same as `gpu-agent/engine/order/policies/lamps/lamps.ts`, which holds the reasons.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args
from weakref import WeakSet

from ...handling.waste import HANDLINGS, HandlingChoice, HandlingRule, choose_handling, handling_rule
from ..forecast import CallForecast
from ..numbers import round_half_up
from ..policy import NEVER_US, Charge, EngineMemory, Place, PolicyCall, Ties
from ..program_table import ProgramSums
from ..shown import BY_PROGRAM, PROMOTED, shown_number
from .memory_over_time import memory_over_time

Starvation = Literal["until_completion", "at_promotion"]
Order = Literal["memory_over_time", "first_come"]

HANDLING = HandlingRule(HANDLINGS, hidden_swaps=True, revises=True, pins="relieved")

#: What a call without a forecast is expected to write.
OUTPUT_TOKENS_DEFAULT = 256
#: Below every score: more token-seconds than a year of an engine's memory has.
_PROMOTED = 1e13
_US_PER_MS = 1000


@dataclass(frozen=True, slots=True)
class LampsConfig:
    #: A call that runs is scored again once in so many of its tokens.
    refresh_tokens: int = 10
    #: Iterations for which a call waits before it goes to the head of the queue.
    starvation_iterations: int = 100
    #: How long it stays there: until its program is complete, or until it has run for an iteration.
    starvation: Starvation = "until_completion"
    #: `first_come`: by when programs opened, with the same handling.
    order: Order = "memory_over_time"
    #: What differs from HANDLING.
    handling: Mapping[str, Any] = field(default_factory=dict)


class LampsPlace(Place):
    __slots__ = (
        "came_ms",
        "choice",
        "due_us",
        "of",
        "output_tokens",
        "promoted",
        "score",
        "scored_at_tokens",
        "scored_resident_tokens",
        "waits_since",
    )

    def __init__(
        self, of: PolicyCall, choice: HandlingChoice | None, waits_since: int, now_us: int, *, promoted: bool
    ) -> None:
        super().__init__(0)
        self.came_ms = now_us / _US_PER_MS
        self.of = of
        self.choice = choice
        self.score = 0.0
        self.output_tokens = 0
        #: When it was last scored: what it had written, and its resident tokens.
        self.scored_at_tokens = 0
        self.scored_resident_tokens = 0
        self.promoted = promoted
        #: The iteration after which it last ran, or in which it came.
        self.waits_since = waits_since
        self.due_us: float = 0


class Lamps:
    name = "lamps"
    ties: Ties = "program"
    refreshes = True

    def __init__(self, config: LampsConfig, memory: EngineMemory) -> None:
        for name in ("refresh_tokens", "starvation_iterations"):
            value = getattr(config, name)
            if not (isinstance(value, int) and value >= 1):
                raise ValueError(f"lamps: {name} must be a positive integer")
        if config.starvation not in get_args(Starvation):
            raise ValueError(f"lamps: starvation must be one of {', '.join(get_args(Starvation))}")
        if config.order not in get_args(Order):
            raise ValueError(f"lamps: order must be one of {', '.join(get_args(Order))}")
        self.handling = handling_rule(HANDLING, config.handling)
        self._first_come = config.order == "first_come"
        self._config = config
        self._memory = memory
        #: Programs whose calls are at the head of the queue until they are complete.
        self._promoted: WeakSet[ProgramSums] = WeakSet()
        #: Steps seen so far, and when the last one ended.
        self._iterations = 0
        self._seen_us = -1

    def arrive(self, call: PolicyCall, now_us: int) -> LampsPlace:
        promoted = call.program in self._promoted
        place = LampsPlace(call, self._choose(call), self._iterations, now_us, promoted=promoted)
        self._score(place)
        self._watch(place, now_us)
        return place

    def charge(self, place: LampsPlace, charge: Charge, now_us: int) -> bool:
        if now_us != self._seen_us:
            # Charges of several steps at once are of calls that got a token in each.
            self._iterations += max(1, charge.output_tokens)
            self._seen_us = now_us
        place.output_tokens += charge.output_tokens
        place.waits_since = self._iterations
        was_promoted = place.promoted
        if self._config.starvation == "at_promotion":
            place.promoted = False
        self._watch(place, now_us)
        stale = place.output_tokens - place.scored_at_tokens >= self._config.refresh_tokens
        return self._score(place) if stale or place.promoted != was_promoted else False

    def refresh(self, place: LampsPlace, now_us: int) -> bool:
        return False if place.of.resident_tokens == place.scored_resident_tokens else self._score(place)

    def yields_to(self, worst: LampsPlace, best: LampsPlace) -> bool:
        return best.rank < worst.rank

    def due_us(self, place: LampsPlace) -> float:
        return NEVER_US if place.promoted or self._first_come else place.due_us

    def due(self, place: LampsPlace, now_us: int) -> bool:
        if place.promoted or now_us < place.due_us:
            return False
        if self._iterations_left(place) > 0:
            self._watch(place, now_us)
            return False
        place.promoted = True
        if self._config.starvation == "until_completion":
            self._promoted.add(place.of.program)
        self._score(place)
        return True

    def position(self, place: LampsPlace) -> str:
        if self._first_come:
            return BY_PROGRAM
        memory = f"{round_half_up(place.score)} token-seconds of memory expected, fewer go first"
        output = f"{shown_number(output_of(place.of.call.forecast))} output tokens foreseen"
        return f"{memory} ({output}){PROMOTED if place.promoted else ''}"

    def handling_of(self, place: LampsPlace) -> HandlingChoice | None:
        """What it decided, before the call ran, for its context while the tool runs. None: no tool is expected."""
        return place.choice

    def later_work(self, place: LampsPlace) -> float:
        """Token-seconds that the program is expected to take after the call."""
        return 0.0

    def _choose(self, of: PolicyCall) -> HandlingChoice | None:
        """Decided before the call runs, by the batch as it usually is."""
        forecast = of.call.forecast
        tool_us = None if forecast is None else forecast.tool_us
        if tool_us is None:
            return None
        context_tokens = of.prompt_tokens + output_of(forecast)
        memory = self._memory
        return choose_handling(memory.costs, context_tokens, memory.other_tokens, tool_us, self.handling.allowed)

    def _score(self, place: LampsPlace) -> bool:
        """Whether its rank changed."""
        of, choice = place.of, place.choice
        place.scored_at_tokens = place.output_tokens
        place.scored_resident_tokens = of.resident_tokens
        if self._first_come:
            sequence = of.call.sequence
            return _rank(place, place.came_ms if sequence is None else sequence[0])
        place.score = memory_over_time(
            of.prompt_tokens,
            of.prompt_tokens - of.resident_tokens,
            place.output_tokens,
            # A call that writes more than expected may end with any token.
            max(1, output_of(of.call.forecast) - place.output_tokens),
            None if choice is None else (choice.handling, choice.waste),
            self._memory,
        )
        place.score += self.later_work(place)
        place.score /= of.call.program_weight
        return _rank(place, place.score - _PROMOTED if place.promoted else place.score)

    def _iterations_left(self, place: LampsPlace) -> int:
        return self._config.starvation_iterations - (self._iterations - place.waits_since)

    def _watch(self, place: LampsPlace, now_us: int) -> None:
        """The threshold is not reached before so many of the shortest steps."""
        shortest_us = max(1, self._memory.costs.forward.base_us)
        place.due_us = now_us + math.ceil(max(1, self._iterations_left(place)) * shortest_us)


def _rank(place: LampsPlace, rank: float) -> bool:
    """Whether it changed."""
    if rank == place.rank:
        return False
    place.rank = rank
    return True


def output_of(forecast: CallForecast | None) -> float:
    return OUTPUT_TOKENS_DEFAULT if forecast is None else forecast.output_tokens
