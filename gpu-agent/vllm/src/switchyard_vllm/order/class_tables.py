"""What the agent told about classes of programs: for each, the table by which a policy orders its programs.

The agent makes the tables (`src/core/classes/index-table.ts`) of what programs of a class had when they ended. They come over
the side channel, on its thread, and the scheduler's reads them. Of more classes than CLASSES_MAX, the one told longest ago is
forgotten.
"""

from __future__ import annotations

import itertools
import math
from threading import Lock
from typing import NamedTuple

CLASSES_MAX = 4096
#: A table takes about 110 kB.
CLASSES_PER_MESSAGE_MAX = 4
STEPS_MAX = 256
LINES_PER_STEP_MAX = 256
ID_CHARS_MAX = 128
OBJECTIVES = frozenset({"token_latency", "response"})


class IndexStep(NamedTuple):
    #: It holds from so many output tokens on.
    from_tokens: int
    #: Base and slope: what an index costs without prompt tokens, and for each prompt token more. The least of them counts.
    lines: tuple[tuple[float, float], ...]
    remaining_tokens: float
    #: Of programs that have had so many.
    median_tokens: float


class IndexTable(NamedTuple):
    #: By `from_tokens`, ascending from 0.
    steps: tuple[IndexStep, ...]
    #: Of later calls, for each token of output.
    prompt_tokens_per_output_token: float
    #: Mean output of a call. 0: not known.
    call_tokens: float


class ClassTables:
    def __init__(self) -> None:
        self._lock = Lock()
        self._tables: dict[tuple[str, str, str], IndexTable] = {}

    def __len__(self) -> int:
        return len(self._tables)

    def take(self, told: object) -> bool:
        """A message's `classes`. False: it is not what an agent says, and nothing of it is taken."""
        if not isinstance(told, list) or len(told) > CLASSES_PER_MESSAGE_MAX:
            return False
        try:
            tables = [_read_class(one) for one in told]
        except ValueError:
            return False
        with self._lock:
            for key, table in tables:
                self._tables.pop(key, None)
                self._tables[key] = table
            while len(self._tables) > CLASSES_MAX:
                del self._tables[next(iter(self._tables))]
        return True

    def table_of(self, tenant: str, program_class: str, objective: str) -> IndexTable | None:
        """None: nothing is known of the class."""
        with self._lock:
            return self._tables.get((tenant, program_class, objective))


def _read_class(told: object) -> tuple[tuple[str, str, str], IndexTable]:
    fields = _fields(told)
    tenant, program_class, objective = fields.get("tenant"), fields.get("class"), fields.get("objective")
    if not _is_id(tenant) or not _is_id(program_class) or objective not in OBJECTIVES:
        raise ValueError("a class has a tenant, a name and an objective")
    return (str(tenant), str(program_class), str(objective)), _read_table(fields.get("table"))


def _read_table(told: object) -> IndexTable:
    fields = _fields(told)
    steps = tuple(_read_step(step) for step in _items(fields.get("steps"), STEPS_MAX))
    starts = [step.from_tokens for step in steps]
    if starts[0] != 0 or any(later <= start for start, later in itertools.pairwise(starts)):
        raise ValueError("steps ascend from 0")
    prompt_tokens = _figure(fields.get("prompt_tokens_per_output_token"))
    return IndexTable(steps, prompt_tokens, _figure(fields.get("call_tokens")))


def _read_step(told: object) -> IndexStep:
    fields = _fields(told)
    from_tokens = fields.get("from_tokens")
    if isinstance(from_tokens, bool) or not isinstance(from_tokens, int) or from_tokens < 0:
        raise ValueError("a step begins at a number of tokens")
    lines = tuple(_read_line(line) for line in _items(fields.get("lines"), LINES_PER_STEP_MAX))
    remaining_tokens, median_tokens = _figure(fields.get("remaining_tokens")), _figure(fields.get("median_tokens"))
    return IndexStep(from_tokens, lines, remaining_tokens, median_tokens)


def _read_line(told: object) -> tuple[float, float]:
    base, slope = _items(told, 2) if isinstance(told, list) and len(told) == 2 else (None, None)
    return _figure(base), _figure(slope)


def _items(told: object, items_max: int) -> list[object]:
    if not isinstance(told, list) or not 0 < len(told) <= items_max:
        raise ValueError("not a list of the right length")
    return told


def _fields(told: object) -> dict[str, object]:
    if not isinstance(told, dict):
        raise ValueError("not an object")
    return told


def _figure(told: object) -> float:
    if isinstance(told, bool) or not isinstance(told, int | float) or not 0 <= told < math.inf:
        raise ValueError("not a figure")
    return float(told)


def _is_id(told: object) -> bool:
    return isinstance(told, str) and 0 < len(told) <= ID_CHARS_MAX
