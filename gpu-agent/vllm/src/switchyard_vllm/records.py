"""What is published of every ended call, whether it was streamed, aborted or failed: one record each, through a sink."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

from .core.call_state import Measurement

RECORD_VERSION = 1
#: Records that nobody has taken yet. Of more, the oldest is dropped and counted: an engine must not grow with its records.
RECORDS_MAX = 16_384

#: `cancelled` also is what vLLM's front end makes of a stop string: it sees the string and aborts the call.
Outcome = Literal["stop", "length", "cancelled", "failed"]


@dataclass(frozen=True, slots=True)
class CallRecord:
    request_id: str
    lease: str | None
    tenant: str
    program: str
    program_class: str | None
    outcome: Outcome
    measurement: Measurement

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; times are microseconds of the engine's own clock."""
        fields = asdict(self)
        measured = fields.pop("measurement")
        return {"v": RECORD_VERSION, **fields, **measured}


class RecordSink(Protocol):
    def publish(self, record: CallRecord) -> None: ...


class RecordBuffer:
    """Keeps records until somebody takes them."""

    def __init__(self, records_max: int = RECORDS_MAX) -> None:
        self._records: deque[CallRecord] = deque()
        self._records_max = records_max
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._records)

    def publish(self, record: CallRecord) -> None:
        if len(self._records) >= self._records_max:
            self._records.popleft()
            self.dropped += 1
        self._records.append(record)

    def take(self) -> list[CallRecord]:
        records = list(self._records)
        self._records.clear()
        return records
