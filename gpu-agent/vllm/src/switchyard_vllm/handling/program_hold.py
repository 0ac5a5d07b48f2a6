"""For how long the contexts of programs whose tools run are held, and what became of those that were.

The same as `gpu-agent/engine/memory/program-hold.ts` and `hold-time.ts`, which hold the reasons; golden traces compare. Which
blocks a context has, and which calls wait for them, is kv_hold.py's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Literal

from ..order.numbers import round_half_up
from .return_times import AwayPrograms, ReturnTimes

#: Contexts that are held or watched. Past it, the one whose time ends first is given up.
CONTEXTS_MAX = 1024
#: No context is held or watched for longer.
HOLD_US_MAX = 120_000_000
#: Classes of which return times are known. Past it, the one whose program ended a call longest ago is forgotten.
CLASSES_MAX = 256

#: How the hold of a context ended. `given_up`: others took something of it, or it made room at CONTEXTS_MAX.
Ending = Literal["returned", "given_up", "expired"]


class _ClassTimes:
    def __init__(self) -> None:
        self.times = ReturnTimes()
        #: Its contexts.
        self.away = AwayPrograms()


@dataclass(slots=True, eq=False)
class _Context:
    program: str
    tenant: str
    of_class: _ClassTimes
    since_us: int
    held_until_us: int
    watched_until_us: int
    number: int
    held: bool

    @property
    def due_us(self) -> int:
        return self.held_until_us if self.held else self.watched_until_us


class ProgramHold:
    def __init__(self, was_taken: Callable[[str], bool], let_go: Callable[[str], None] = lambda _: None) -> None:
        """`was_taken`: whether others took something of the context of a program while it was held. `let_go`: told of each
        program whose context is held no longer."""
        self._was_taken = was_taken
        self._let_go_of = let_go
        self._contexts: dict[str, _Context] = {}
        #: Due time, number and context; those that are no longer due then are passed over.
        self._due: list[tuple[int, int, _Context]] = []
        #: By tenant and class, the one whose program ended a call longest ago in front.
        self._classes: dict[tuple[str, str], _ClassTimes] = {}
        self._number = 0
        # Counts since start; `begun` is the sum of `contexts`, `returned`, `given_up` and `expired`.
        #: Held.
        self.contexts = 0
        self.begun = 0
        self.ends: Counter[Ending] = Counter()

    @property
    def next_expiry_us(self) -> int | None:
        """When `expire` does something. None: never, as things are."""
        self._pass_over()
        return self._due[0][0] if self._due else None

    def holds(self, program: str) -> bool:
        context = self._contexts.get(program)
        return context is not None and context.held

    def ended(self, program: str, tenant: str, program_class: str, buy_us: float, now_us: int) -> bool:
        """A call was answered, and no call of its program is open. Whether its context is held.

        `buy_us`: holding it for so long costs as much as computing it again.
        """
        self.expire(now_us)
        assert program not in self._contexts, "a program whose call ended was told to have come back"
        bounded_us = min(buy_us, HOLD_US_MAX)
        of_class = self._class_of(tenant, program_class)
        hold_us = round_half_up(of_class.times.best_us(bounded_us, of_class.away, now_us))
        if len(self._contexts) >= CONTEXTS_MAX:
            self._pass_over()
            self._drop(self._due[0][2])
        until_us = now_us + max(hold_us, round_half_up(bounded_us))
        context = _Context(
            program, tenant, of_class, now_us, now_us + hold_us, until_us, self._number, held=hold_us > 0
        )
        self._number += 1
        self._contexts[program] = context
        if len(self._due) >= 2 * CONTEXTS_MAX:
            self._due = [entry for entry in self._due if self._contexts.get(entry[2].program) is entry[2]]
            heapify(self._due)
        heappush(self._due, (context.due_us, context.number, context))
        of_class.away.add(now_us)
        self.begun += context.held
        self.contexts += context.held
        return context.held

    def arrived(self, program: str, now_us: int) -> bool:
        """A call of the program has come. Whether its context was held."""
        self.expire(now_us)
        context = self._contexts.get(program)
        if context is None:
            return False
        was_held = context.held
        self._let_go(context, "returned")
        self._drop(context)
        context.of_class.times.seen(now_us - context.since_us, returned=True)
        return was_held

    def expire(self, now_us: int) -> None:
        """Lets go of the contexts whose time is over."""
        while True:
            self._pass_over()
            if not self._due or self._due[0][0] > now_us:
                return
            _, _, first = heappop(self._due)
            if first.held:
                self._let_go(first, "expired")
                heappush(self._due, (first.due_us, first.number, first))
            else:
                self._drop(first)
                first.of_class.times.seen(first.watched_until_us - first.since_us, returned=False)

    def _let_go(self, context: _Context, why: Ending) -> None:
        """It is not held any more, if it was."""
        if not context.held:
            return
        context.held = False
        self.contexts -= 1
        self.ends["given_up" if self._was_taken(context.program) else why] += 1
        self._let_go_of(context.program)

    def _drop(self, context: _Context) -> None:
        """It is neither held nor watched any more."""
        self._let_go(context, "given_up")
        if self._contexts.pop(context.program, None) is not None:
            context.of_class.away.remove(context.since_us)

    def _pass_over(self) -> None:
        while self._due:
            due_us, _, first = self._due[0]
            if self._contexts.get(first.program) is first and due_us == first.due_us:
                return
            heappop(self._due)

    def _class_of(self, tenant: str, program_class: str) -> _ClassTimes:
        key = (tenant, program_class)
        known = self._classes.pop(key, None) or _ClassTimes()
        self._classes[key] = known
        if len(self._classes) > CLASSES_MAX:
            del self._classes[next(iter(self._classes))]
        return known
