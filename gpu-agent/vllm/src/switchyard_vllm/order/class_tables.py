"""What the agent told about classes of programs: for each, the table by which a policy orders its programs.

The agent makes the tables (`src/core/classes/index-table.ts`) of what programs of a class had when they ended. They come over
the side channel, on its thread, and the scheduler's reads them. Of more classes than CLASSES_MAX, the one told longest ago is
forgotten.
"""

from __future__ import annotations

from threading import Lock

from .index_table import OBJECTIVES, IndexTable, fields_of, read_table

CLASSES_MAX = 4096
#: What a tenant's classes had together is told under this name, for each class of which nothing is known.
ANY_CLASS = "*"
#: A table takes 30 to 60 kB.
CLASSES_PER_MESSAGE_MAX = 4
ID_CHARS_MAX = 128


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
        """Where the class is not known, that of its tenant. None: neither is."""
        with self._lock:
            own = self._tables.get((tenant, program_class, objective))
            return own or self._tables.get((tenant, ANY_CLASS, objective))


def _read_class(told: object) -> tuple[tuple[str, str, str], IndexTable]:
    fields = fields_of(told)
    tenant, program_class, objective = fields.get("tenant"), fields.get("class"), fields.get("objective")
    if not _is_id(tenant) or not _is_id(program_class) or objective not in OBJECTIVES:
        raise ValueError("a class has a tenant, a name and an objective")
    return (str(tenant), str(program_class), str(objective)), read_table(fields.get("table"))


def _is_id(told: object) -> bool:
    return isinstance(told, str) and 0 < len(told) <= ID_CHARS_MAX
