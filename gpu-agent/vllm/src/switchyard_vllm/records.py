"""What is published of every ended call, whether it was streamed, aborted or failed: one record each, through a sink."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, fields
from itertools import islice
from threading import Lock
from typing import Any, Literal, Protocol

from .handling.decision import HandlingDecision
from .order.call_state import Measurement
from .order.policy import Outlook
from .pauses import Pause

RECORD_VERSION = 1
#: Records not taken yet. Of more, the oldest is dropped and counted: an engine must not grow with its records.
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
    #: Tokens that steps computed for it, what they computed again included.
    computed_tokens: int
    measurement: Measurement
    #: None: its policy says nothing of a call that comes.
    outlook: Outlook | None = None
    #: When it was preempted.
    pauses: tuple[Pause, ...] = ()
    #: What was decided for its context. None: nothing, since its policy does not or no tool is expected.
    handled: HandlingDecision | None = None

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; times are microseconds of the engine's own clock."""
        own = {name: getattr(self, name) for name in _OWN_FIELDS}
        measured = {name: getattr(self.measurement, name) for name in _MEASURED_FIELDS}
        known = {} if self.outlook is None else self.outlook.known()
        handled = {} if self.handled is None else {"handled": self.handled.as_dict()}
        paused = {"pauses": self.pauses} if self.pauses else {}
        return {"v": RECORD_VERSION, **own, **measured, **known, **paused, **handled}


_GIVEN_APART = {"measurement", "outlook", "pauses", "handled"}
_OWN_FIELDS = tuple(one.name for one in fields(CallRecord) if one.name not in _GIVEN_APART)
_MEASURED_FIELDS = tuple(one.name for one in fields(Measurement))


class RecordSink(Protocol):
    def publish(self, record: CallRecord) -> None: ...


class RecordBuffer:
    """Keeps records, each under a number of its own, until they are acknowledged.

    The scheduler publishes on one thread while the side channel reads on another: every method takes the lock.
    """

    def __init__(self, records_max: int = RECORDS_MAX) -> None:
        self._lock = Lock()
        self._records: deque[tuple[int, CallRecord]] = deque()
        self._records_max = records_max
        self._next = 1
        self.dropped = 0

    def __len__(self) -> int:
        with self._lock:
            return len(self._records)

    def publish(self, record: CallRecord) -> None:
        with self._lock:
            if len(self._records) >= self._records_max:
                self._records.popleft()
                self.dropped += 1
            self._records.append((self._next, record))
            self._next += 1

    def after(self, number: int, records_max: int) -> list[tuple[int, CallRecord]]:
        """The oldest records whose number is greater than `number`."""
        with self._lock:
            if not self._records:
                return []
            begin = max(0, number + 1 - self._records[0][0])
            return list(islice(self._records, begin, begin + records_max))

    def acknowledge(self, number: int) -> None:
        """All records up to this number are safe with the agent that took them."""
        with self._lock:
            while self._records and self._records[0][0] <= number:
                self._records.popleft()

    def take(self) -> list[CallRecord]:
        with self._lock:
            records = [record for _, record in self._records]
            self._records.clear()
            return records
