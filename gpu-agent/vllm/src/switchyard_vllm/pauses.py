"""When a preempted call had no seat, for people. The same as in `gpu-agent/engine/scheduled-call.ts`."""

from __future__ import annotations

#: Pauses that are kept of a call, the first ones (src/protocol/measurement.ts).
PAUSES_MAX = 16

#: From when to when after its arrival a call had lost its seat, and whether its KV was moved out of the cache meanwhile.
Pause = tuple[int, int, bool]


class Pauses:
    __slots__ = ("_open", "over")

    def __init__(self) -> None:
        self.over: list[Pause] = []
        #: Since when it is preempted, and how much had been moved until then. None: it is not.
        self._open: tuple[int, int] | None = None

    def begin(self, after_us: int, moved_tokens: int) -> None:
        self._open = (after_us, moved_tokens)

    def end(self, after_us: int, moved_tokens: int) -> None:
        """It is scheduled again, or ends."""
        if self._open is None:
            return
        from_us, before_tokens = self._open
        self._open = None
        if len(self.over) < PAUSES_MAX:
            self.over.append((from_us, after_us, moved_tokens != before_tokens))
