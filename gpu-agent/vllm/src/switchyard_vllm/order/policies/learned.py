"""Programs by a Gittins index of what their class is known to need, and of the prompt tokens that are really left.

The same as `gpu-agent/engine/order/policies/learned/learned.ts`, which holds the reasons. A class without a table is ordered by
the prior, which amounts to least attained service. `learned_priors.json` has its tables as the TypeScript side makes them.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..index_table import (
    OBJECTIVES,
    RANKS_PER_OCTAVE,
    IndexTable,
    Objective,
    index_of,
    prompt_tokens_at,
    rank_from,
    rank_of,
    read_table,
    step_at,
)
from ..numbers import round_half_up
from ..policy import NEVER_US, Charge, ClassLookup, Outlook, PolicyCall, Ties
from ..service import ServiceRates, ServiceReading
from ..shown import PROMOTED, shown_number
from .levels import PROGRAM_LEVELS
from .starvation import WindowPlace, promotion_us

AGE_OCTAVES_MAX = 32
AGE_SCALE_MIN = 1e-6
AGE_SCALE_MAX = 1e6

#: Of a call that was promoted, while it is charged no more than its quantum. Then it is that of its charge.
_PROMOTED_RANK = 0
#: While a missing prompt is computed, others wait for it and its memory serves no one: it counts so many times.
_MISSING_WEIGHT = 1.5

_PRIORS = Path(__file__).with_name("learned_priors.json")


@dataclass(frozen=True, slots=True)
class LearnedConfig:
    #: beta: wait over service at which a call is promoted. The service is at least what is usual for its class.
    promotion_ratio: float
    #: What a promoted call may be charged before its charge counts, beside the prompt that it still lacks.
    promoted_quantum_us: float
    #: What is made small, for calls that do not say: programs' mean latency per output token, or their mean response time.
    objective: Objective = "token_latency"
    #: A program's index halves each time that 1 + its wait over its usual service grows by so many octaves. 0: never.
    age_octaves: int = 0
    #: A program's usual service is taken so many times.
    age_scale: float = 1
    #: What computing a prompt token costs; a generated one costs 500 us. None: as it is charged.
    prefill_us_per_token: float | None = None


LEARNED: dict[ServiceReading, LearnedConfig] = {
    reading: LearnedConfig(levels.promotion_ratio, levels.first_quantum_us)
    for reading, levels in PROGRAM_LEVELS.items()
}


@cache
def prior_table(objective: Objective) -> IndexTable:
    return read_table(json.loads(_PRIORS.read_text(encoding="utf-8"))[objective])


class LearnedPlace(WindowPlace):
    __slots__ = (
        "at",
        "committed_tokens",
        "halvings",
        "index_rank",
        "of",
        "promoted",
        "prompt_tokens_max",
        "prompt_tokens_min",
        "quantum_us",
        "read_interval_us",
        "reads_us",
        "table",
        "token_us",
    )

    def __init__(self, of: PolicyCall, table: IndexTable, token_us: float, now_us: int) -> None:
        super().__init__(0, now_us)
        self.of = of
        self.table = table
        #: What one output token of the program costs, prompts of its later calls included.
        self.token_us = token_us
        #: The position of the table's step that holds.
        self.at = -1
        #: The rank without its wait. It holds while the prompt tokens are between these bounds, and the step is the same.
        self.index_rank = 0
        self.prompt_tokens_min = 0.0
        self.prompt_tokens_max = 0.0
        #: How many times its wait has halved its index.
        self.halvings = 0
        self.promoted = False
        #: Once promoted: what it may be charged at its best rank.
        self.quantum_us = 0.0
        #: When its table is read again, and how long after the time before.
        self.reads_us: float = NEVER_US
        self.read_interval_us = 0


class Learned:
    name = "learned"
    ties: Ties = "program"
    refreshes = True

    def __init__(self, config: LearnedConfig, rates: ServiceRates, classes: ClassLookup | None) -> None:
        if config.objective not in OBJECTIVES:
            raise ValueError(f"learned: objective must be one of {', '.join(OBJECTIVES)}, not {config.objective!r}")
        if not config.promotion_ratio > 0:
            raise ValueError("learned: promotion_ratio must be positive")
        if not config.promoted_quantum_us >= 0:
            raise ValueError("learned: promoted_quantum_us must not be negative")
        if not (isinstance(config.age_octaves, int) and 0 <= config.age_octaves <= AGE_OCTAVES_MAX):
            raise ValueError(f"learned: age_octaves must be an integer from 0 to {AGE_OCTAVES_MAX}")
        if not AGE_SCALE_MIN <= config.age_scale <= AGE_SCALE_MAX:
            raise ValueError(f"learned: age_scale must be from {AGE_SCALE_MIN} to {AGE_SCALE_MAX}")
        if config.prefill_us_per_token is not None and not config.prefill_us_per_token >= 0:
            raise ValueError("learned: prefill_us_per_token must not be negative")
        self._config = config
        self._classes = classes
        given = config.prefill_us_per_token
        self._prefill_us_per_token = rates.prefill_us_per_token if given is None else given
        self._decode_us_per_token = rates.decode_us_per_token

    def arrive(self, call: PolicyCall, now_us: int) -> LearnedPlace:
        table = self._table_of(call)
        place = LearnedPlace(call, table, self._token_us(table), now_us)
        self.refresh(place, now_us)
        if self._classes is not None:
            place.read_interval_us = math.ceil(self._usual_us(place))
            place.reads_us = now_us + place.read_interval_us
        return place

    def charge(self, place: LearnedPlace, charge: Charge, now_us: int) -> bool:
        place.window_wall_us += charge.wall_us
        place.window_charge_us += charge.charge_us
        return self.refresh(place, now_us)

    def refresh(self, place: LearnedPlace, now_us: int) -> bool:
        # For every call of every step.
        call = place.of
        program = call.program
        table = place.table
        committed_tokens = _committed_tokens(table, len(program.open), program.open_output_tokens)
        before = place.at
        at = step_at(table, program.output_tokens + committed_tokens, max(0, before))
        missing_tokens = call.prompt_tokens - call.resident_tokens
        missing_us = missing_tokens * self._prefill_us_per_token
        prompt_tokens = _MISSING_WEIGHT * missing_us / place.token_us + committed_tokens
        if at == before and place.prompt_tokens_min <= prompt_tokens <= place.prompt_tokens_max:
            return place.promoted and self._ranks(place)
        place.at = at
        self._find_rank(place, prompt_tokens)
        return (at != before and self._age(place, now_us)) | self._ranks(place)

    def yields_to(self, worst: LearnedPlace, best: LearnedPlace) -> bool:
        return worst.rank - best.rank >= RANKS_PER_OCTAVE

    def due_us(self, place: LearnedPlace) -> float:
        return min(place.reads_us, self._ages_us(place), self._promotion_us(place))

    def due(self, place: LearnedPlace, now_us: int) -> bool:
        read = now_us >= place.reads_us and self._read_again(place, now_us)
        if now_us >= self._ages_us(place):
            self._age(place, now_us)
        moved = self._ranks(place) or read
        if now_us < self._promotion_us(place):
            return moved
        place.promoted = True
        place.quantum_us = self._config.promoted_quantum_us + self._missing_us(place.of)
        place.reset_window(now_us)
        self._age(place, now_us)
        self._ranks(place)
        return True

    def outlook(self, place: LearnedPlace) -> Outlook:
        call, table = place.of, place.table
        committed_tokens = _committed_tokens(table, len(call.program.open), call.program.open_output_tokens)
        return Outlook(place.rank, committed_tokens + table.steps[place.at].remaining_tokens)

    def position(self, place: LearnedPlace) -> str:
        rank, remaining_tokens = self.outlook(place)
        expected = f"about {round_half_up(remaining_tokens or 0)} output tokens of its program to come"
        return f"rank {shown_number(rank)}, lower goes first: {expected}{PROMOTED if place.promoted else ''}"

    def _table_of(self, call: PolicyCall) -> IndexTable:
        told = call.call
        objective = told.objective or self._config.objective
        table = None if self._classes is None else self._classes.table_of(told.tenant, told.program_class, objective)
        return prior_table(objective) if table is None else table

    def _token_us(self, table: IndexTable) -> float:
        return self._decode_us_per_token + self._prefill_us_per_token * table.prompt_tokens_per_output_token

    def _read_again(self, place: LearnedPlace, now_us: int) -> bool:
        """Its class may be known better than when its table was read. Whether its rank changed."""
        place.read_interval_us *= 2
        place.reads_us = now_us + place.read_interval_us
        table = self._table_of(place.of)
        if table is place.table:
            return False
        place.table = table
        place.token_us = self._token_us(table)
        place.at = -1
        return self.refresh(place, now_us)

    def _promotion_us(self, place: LearnedPlace) -> float:
        if place.rank <= _PROMOTED_RANK:
            return NEVER_US
        call = place.of
        program = call.program
        service_at_least_us = max(program.service_us, self._usual_us(place)) + self._missing_us(call)
        return promotion_us(place, service_at_least_us, program.wait_us, self._config.promotion_ratio)

    def _ages_us(self, place: LearnedPlace) -> float:
        if self._config.age_octaves == 0:
            return NEVER_US
        wait_us = self._wait_for_us(place, place.halvings + 1)
        return math.ceil(place.window_started_us + place.window_wall_us + wait_us - place.of.program.wait_us)

    def _find_rank(self, place: LearnedPlace, prompt_tokens: float) -> None:
        """The rank of its index over its weight at so many prompt tokens, and down to how many it holds.

        Calls that get tokens have ever fewer.
        """
        step, token_us = place.table.steps[place.at], place.token_us / place.of.call.program_weight
        rank = rank_of(token_us * index_of(step, prompt_tokens))
        place.index_rank = rank
        place.prompt_tokens_min = place.prompt_tokens_max = prompt_tokens
        # Rounding may put the exact end of the rank on either side.
        fewer_tokens = prompt_tokens_at(step, rank_from(rank) / token_us) + 1
        if fewer_tokens < prompt_tokens and rank_of(token_us * index_of(step, fewer_tokens)) == rank:
            place.prompt_tokens_min = fewer_tokens

    def _wait_for_us(self, place: LearnedPlace, halvings: int) -> float:
        """The wait that halves its index so many times."""
        config = self._config
        return self._usual_us(place) * config.age_scale * (2.0 ** (halvings * config.age_octaves) - 1)

    def _missing_us(self, call: PolicyCall) -> float:
        """Of its prompt, what is still to be computed."""
        return (call.prompt_tokens - call.resident_tokens) * self._prefill_us_per_token

    def _usual_us(self, place: LearnedPlace) -> float:
        """What a program of its class that has come so far has had in the end, as often as not."""
        return place.table.steps[place.at].median_tokens * place.token_us

    def _age(self, place: LearnedPlace, now_us: int) -> bool:
        """Whether its age changed, and with it the time at which it must be looked at."""
        if self._config.age_octaves == 0:
            return False
        wait_us = place.of.program.wait_us + now_us - place.window_started_us - place.window_wall_us
        halvings = 0
        while self._wait_for_us(place, halvings + 1) <= wait_us:
            halvings += 1
        aged = halvings != place.halvings
        place.halvings = halvings
        return aged

    def _ranks(self, place: LearnedPlace) -> bool:
        """Whether its rank changed."""
        rank = place.index_rank - RANKS_PER_OCTAVE * place.halvings
        if place.promoted:
            charge_us = place.window_charge_us
            rank = min(rank, _PROMOTED_RANK if charge_us < place.quantum_us else rank_of(1 + charge_us))
        if rank == place.rank:
            return False
        place.rank = rank
        return True


def _committed_tokens(table: IndexTable, open_calls: int, open_output_tokens: int) -> int:
    """What is sure to come of its open calls before the program ends, beyond what they have had."""
    expected_tokens = math.floor(table.call_tokens * open_calls + 0.5) - open_output_tokens
    if expected_tokens <= 0:
        return 0
    return math.floor((open_calls - 1 + table.call_share) / open_calls * expected_tokens)
