"""The Gittins index of a class of programs, as a table. The same as `src/core/classes/index-table.ts`, which holds the reasons.

The TypeScript side makes the tables. Here they are read and looked up, with equal results to the last bit: scaling by powers
of two is exact, and everything else is done in the same order.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from typing import Literal, NamedTuple, get_args

Objective = Literal["token_latency", "response"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)

STEPS_MAX = 256
LINES_PER_STEP_MAX = 256
#: As the tables have at most. Times the number of open calls they stay exact in both languages.
TOKENS_MAX = 2**27
#: Indexes between these, times any cost, are neither infinite nor rounded to 0.
FIGURE_MIN = 2.0**-256
FIGURE_MAX = 2.0**256

#: Ranks to an octave of the index.
RANKS_PER_OCTAVE = 4
#: Where one rank ends and the next begins, within an octave: 2^(1/8), 2^(3/8), 2^(5/8), 2^(7/8).
_RANK_ENDS = (1.0905077326652577, 1.2968395546510096, 1.5422108254079407, 1.8340080864093424)


class IndexStep(NamedTuple):
    #: It holds from so many output tokens on.
    from_tokens: int
    #: Base and slope: what an index costs without prompt tokens, and for each prompt token more. The least of them counts.
    lines: tuple[tuple[float, float], ...]
    remaining_tokens: float
    #: Of the output of programs that have had so much.
    median_tokens: float


class IndexTable(NamedTuple):
    #: By `from_tokens`, ascending from 0.
    steps: tuple[IndexStep, ...]
    #: Of later calls, for each token of output.
    prompt_tokens_per_output_token: float
    #: Mean output of a call. 0: not known.
    call_tokens: float
    #: Of it, what the last open call of a program is taken to have before it. 0 to 1.
    call_share: float


def step_at(table: IndexTable, output_tokens: float, at: int = 0) -> int:
    """The position of the step that holds at `output_tokens`. Quick if it is near `at`."""
    steps = table.steps
    while at > 0 and steps[at].from_tokens > output_tokens:
        at -= 1
    last = len(steps) - 1
    while at < last and steps[at + 1].from_tokens <= output_tokens:
        at += 1
    return at


def index_of(step: IndexStep, prompt_tokens: float) -> float:
    """G / c. `prompt_tokens`: k, in tokens of output's cost."""
    return min([base + slope * prompt_tokens for base, slope in step.lines])


def rank_of(index: float) -> int:
    """The quarter of an octave that an index, above 0, is nearest to."""
    mantissa, exponent = math.frexp(index)
    return (exponent - 1) * RANKS_PER_OCTAVE + bisect_right(_RANK_ENDS, mantissa * 2)


def rank_from(rank: int) -> float:
    """The least index of a rank."""
    octave, within = divmod(rank, RANKS_PER_OCTAVE)
    return math.ldexp(_RANK_ENDS[within - 1], octave if within > 0 else octave - 1)


def prompt_tokens_at(step: IndexStep, index: float) -> float:
    """The least number of prompt tokens at which the index is no less than `index`."""
    return max(0.0, *[(index - base) / slope for base, slope in step.lines])


def read_table(told: object) -> IndexTable:
    """A table as JSON holds it. Raises ValueError for what is none."""
    fields = fields_of(told)
    steps = tuple(_read_step(step) for step in _items(fields.get("steps"), STEPS_MAX))
    starts = [step.from_tokens for step in steps]
    if starts[0] != 0 or any(later <= start for start, later in itertools.pairwise(starts)):
        raise ValueError("steps ascend from 0")
    prompt_tokens = _figure(fields.get("prompt_tokens_per_output_token"))
    call_tokens = _figure(fields.get("call_tokens"), most=TOKENS_MAX)
    return IndexTable(steps, prompt_tokens, call_tokens, _figure(fields.get("call_share"), most=1))


def fields_of(told: object) -> dict[str, object]:
    if not isinstance(told, dict):
        raise ValueError("not an object")
    return told


def _read_step(told: object) -> IndexStep:
    fields = fields_of(told)
    from_tokens = fields.get("from_tokens")
    if isinstance(from_tokens, bool) or not isinstance(from_tokens, int) or not 0 <= from_tokens <= TOKENS_MAX:
        raise ValueError("a step begins at a number of tokens")
    lines = tuple(_read_line(line) for line in _items(fields.get("lines"), LINES_PER_STEP_MAX))
    median_tokens = _figure(fields.get("median_tokens"), least=FIGURE_MIN)
    return IndexStep(from_tokens, lines, _figure(fields.get("remaining_tokens")), median_tokens)


def _read_line(told: object) -> tuple[float, float]:
    base, slope = told if isinstance(told, list) and len(told) == 2 else (None, None)
    return _figure(base, least=FIGURE_MIN), _figure(slope, least=FIGURE_MIN)


def _items(told: object, items_max: int) -> list[object]:
    if not isinstance(told, list) or not 0 < len(told) <= items_max:
        raise ValueError("not a list of the right length")
    return told


def _figure(told: object, least: float = 0, most: float = FIGURE_MAX) -> float:
    if isinstance(told, bool) or not isinstance(told, int | float) or not least <= told <= most:
        raise ValueError("not a figure")
    return float(told)
