"""What the scheduler's thread and the side channel's leave for each other, under a lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from .open_charges import Sums
from .order.class_tables import ClassTables

Message = Mapping[str, Any]
#: Programs that went on elsewhere, until the engine's next step. Of more, the oldest are kept until their bounds end them.
LEFT_MAX = 4096
#: Questions where calls are, until the engine's next step. Of more, the oldest get no answer.
QUESTIONS_MAX = 16


class Mailbox:
    """The latest status and charges, options that wait to be applied and what became of them, programs that went on
    elsewhere, questions where calls are, and what is known of classes."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._status: Message = {}
        self._charges: dict[str, Sums] = {}
        self._options: tuple[int, Message] | None = None
        self._verdicts: list[Message] = []
        self._left: deque[str] = deque(maxlen=LEFT_MAX)
        self._questions: deque[tuple[int, Sequence[str]]] = deque(maxlen=QUESTIONS_MAX)
        #: Locks for itself.
        self.classes = ClassTables()
        #: An agent is connected: charges are of use. Written by the channel, read without the lock.
        self.heard = False

    def set_status(self, status: Message) -> None:
        with self._lock:
            self._status = status

    def status(self) -> Message:
        with self._lock:
            return self._status

    def set_charges(self, charges: dict[str, Sums]) -> None:
        """Cumulative sums of every lease that has an open call."""
        with self._lock:
            self._charges = charges

    def forget_charges(self, lease: str) -> None:
        """The lease's last record comes: nothing of it may follow the record."""
        with self._lock:
            self._charges.pop(lease, None)

    def charges(self) -> dict[str, Sums]:
        with self._lock:
            return dict(self._charges)

    def ask(self, number: int, options: Message) -> None:
        """The latest wish alone is applied."""
        with self._lock:
            self._options = (number, options)

    def waits(self) -> int | None:
        """The number of the wish that waits."""
        with self._lock:
            return None if self._options is None else self._options[0]

    def asked(self) -> tuple[int, Message] | None:
        """Asked in every step: where nothing waits it takes no lock."""
        if self._options is None:
            return None
        with self._lock:
            asked, self._options = self._options, None
            return asked

    def leave(self, program: str) -> None:
        """The program goes on at another engine."""
        with self._lock:
            self._left.append(program)

    def left(self) -> Sequence[str]:
        """Asked in every step: where there is none it takes no lock."""
        if not self._left:
            return ()
        with self._lock:
            left = tuple(self._left)
            self._left.clear()
            return left

    def ask_positions(self, number: int, leases: Sequence[str]) -> None:
        with self._lock:
            self._questions.append((number, leases))

    def questions(self) -> Sequence[tuple[int, Sequence[str]]]:
        """Asked in every step: where there is none it takes no lock."""
        if not self._questions:
            return ()
        with self._lock:
            questions = tuple(self._questions)
            self._questions.clear()
            return questions

    def answer(self, verdict: Message) -> None:
        with self._lock:
            self._verdicts.append(verdict)

    def answers(self) -> list[Message]:
        with self._lock:
            verdicts, self._verdicts = self._verdicts, []
            return verdicts
