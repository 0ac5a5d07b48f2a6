"""The process table (Autellix §4.2.1): what each program that has calls here has received, as of this moment.

The same as `gpu-agent/engine/order/program-table.ts`. A ticket has what the control plane knew when it was made. A program's
service is

    max(sums from tickets, sums known to this engine) + charges of its open calls here

So no lease counts twice, for any order of tickets, and a ticket that knows less never lowers a sum. Calls without a ticket
add nothing, and the table keeps the local sums. Programs without open calls are remembered. Past PROGRAMS_KEPT_MAX the one
idle for longest is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .call_state import CallState

#: Programs without open calls that are remembered. One takes some 400 bytes.
PROGRAMS_KEPT_MAX = 8192


class ProgramSums:
    """Service, path and wait in the ordering reading, in microseconds."""

    __slots__ = (
        "__weakref__",
        "_known_output_tokens",
        "_known_us",
        "_live_us",
        "_settled_us",
        "_ticket_elsewhere_us",
        "_ticket_settled_us",
        "open",
        "open_output_tokens",
        "output_tokens",
        "path_us",
        "program",
        "service_us",
        "settled",
        "wait_us",
    )

    def __init__(self, program: str) -> None:
        self.program = program
        #: Open calls, in the order in which they arrived.
        self.open: dict[CallState, None] = {}
        #: Attained service, open calls included: known and live.
        self.service_us = 0
        self.output_tokens = 0
        #: Of them, those of its open calls.
        self.open_output_tokens = 0
        #: The longest chain of dependent calls observed, open calls included (eq. 2's scalar). At most `service_us`.
        self.path_us = 0
        #: Summed wait of ended calls.
        self.wait_us = 0
        #: The last settling in which its calls were looked at (program_order.py).
        self.settled = -1
        self._known_us = 0
        self._settled_us = 0
        self._ticket_settled_us = 0
        self._ticket_elsewhere_us = 0
        self._known_output_tokens = 0
        self._live_us = 0

    @property
    def open_calls(self) -> int:
        return len(self.open)

    def arrived(self, state: CallState) -> None:
        call = state.call
        settled_us, elsewhere_us = call.settled_service_us, call.open_elsewhere_us
        self._settled_us = max(self._settled_us, settled_us)
        # Of two tickets, the one that knows more settled service is the later one.
        if settled_us > self._ticket_settled_us:
            self._ticket_settled_us, self._ticket_elsewhere_us = settled_us, elsewhere_us
        elif settled_us == self._ticket_settled_us:
            self._ticket_elsewhere_us = max(self._ticket_elsewhere_us, elsewhere_us)
        known_us = self._settled_us + self._ticket_elsewhere_us
        self._known_us = max(self._known_us, settled_us + elsewhere_us, known_us)
        self.path_us = max(self.path_us, call.critical_path_us)
        self.wait_us = max(self.wait_us, call.program_wait_us)
        self._known_output_tokens = max(self._known_output_tokens, call.program_output_tokens)
        self.service_us = self._known_us + self._live_us
        self.output_tokens = self._known_output_tokens + self.open_output_tokens
        state.path_before_us = self.path_us
        self.open[state] = None

    def charged(self, state: CallState, charge_us: int, output_tokens: int) -> None:
        """`charged_us` of the call holds the charge already."""
        self._live_us += charge_us
        self.service_us += charge_us
        self.open_output_tokens += output_tokens
        self.output_tokens += output_tokens
        path_us = state.path_before_us + state.charged_us
        if path_us > self.path_us:
            self.path_us = path_us

    def ended(self, state: CallState, wait_us: int) -> None:
        """Its charges are known from then on, and no longer live."""
        assert state in self.open, "only an open call of the program ends"
        del self.open[state]
        self._live_us -= state.charged_us
        self._known_us += state.charged_us
        self._settled_us += state.charged_us
        self.open_output_tokens -= state.output_tokens
        self._known_output_tokens += state.output_tokens
        self.wait_us += wait_us


class ProgramTable:
    def __init__(self) -> None:
        self._programs: dict[str, ProgramSums] = {}
        #: Those without open calls, the one idle for longest first.
        self._idle: dict[str, ProgramSums] = {}

    def __len__(self) -> int:
        return len(self._programs)

    @property
    def idle(self) -> int:
        return len(self._idle)

    def get(self, program: str) -> ProgramSums | None:
        return self._programs.get(program)

    def open(self, program: str) -> ProgramSums:
        """The program of a call that arrives."""
        self._idle.pop(program, None)
        sums = self._programs.get(program)
        if sums is None:
            sums = self._programs[program] = ProgramSums(program)
        return sums

    def close(self, sums: ProgramSums, *, comes_back: bool) -> None:
        """A call of the program has ended. `comes_back` False: it is a program of its own and has no other call."""
        if sums.open:
            return
        if not comes_back:
            del self._programs[sums.program]
            return
        self._idle[sums.program] = sums
        if len(self._idle) > PROGRAMS_KEPT_MAX:
            oldest = next(iter(self._idle))
            del self._idle[oldest]
            del self._programs[oldest]
