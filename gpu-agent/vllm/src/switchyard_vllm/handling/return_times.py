"""How long programs of one class stay away while their tools run, and for how long it pays to hold their contexts.

The same as `gpu-agent/engine/memory/return-times.ts`, which holds the reasons. Times are whole microseconds.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

_BIN_MIN_US = 1_000
_BINS = 36
#: Upper ends of bins, each twice that of two bins before.
_BIN_ENDS_US = [_BIN_MIN_US * 2 ** (at // 2) * (1 if at % 2 == 0 else math.sqrt(2)) for at in range(_BINS)]
#: The least whole time that is not in the bin.
_BIN_ENDS_WHOLE_US = [math.ceil(end_us) for end_us in _BIN_ENDS_US]
#: What a program leaves of the weight of those before it.
RETURN_DECAY = 0.99
#: What is assumed counts like so many programs. They come back at twice the rate at which holding starts to pay.
_PRIOR_PROGRAMS = 2


class AwayPrograms:
    """Since when the programs of a class that are away have been so. A thousand take some 20 us to look at."""

    def __init__(self) -> None:
        #: Ascending.
        self._since_us: list[int] = []

    def __len__(self) -> int:
        return len(self._since_us)

    def add(self, since_us: int) -> None:
        self._since_us.insert(bisect_right(self._since_us, since_us), since_us)

    def remove(self, since_us: int) -> None:
        at = bisect_left(self._since_us, since_us)
        if at < len(self._since_us) and self._since_us[at] == since_us:
            del self._since_us[at]

    def bins_at(self, now_us: int) -> list[float]:
        """The time that they have been away, by the bins through which it goes."""
        since = self._since_us
        bins = [0.0] * _BINS
        from_us: float = 0
        # Those before `later` have been away for at least `from_us`.
        later = len(since)
        for at, end_us in enumerate(_BIN_ENDS_US):
            if later == 0:
                break
            longer = bisect_right(since, now_us - _BIN_ENDS_WHOLE_US[at], 0, later)
            sum_us = (later - longer) * now_us - sum(since[longer:later])
            bins[at] = sum_us - (later - longer) * from_us + longer * (end_us - from_us)
            later = longer
            from_us = end_us
        return bins


class ReturnTimes:
    def __init__(self) -> None:
        self._returns = [0.0] * _BINS
        self._away_us = [0.0] * _BINS

    def seen(self, away_us: int, *, returned: bool) -> None:
        """A program came back after so long, or it had not come back when it was given up."""
        self._returns = [returns * RETURN_DECAY for returns in self._returns]
        self._away_us = [us * RETURN_DECAY for us in self._away_us]
        last = _add_time(self._away_us, away_us)
        self._returns[last] += returned

    def best_us(self, buy_us: float, away: AwayPrograms, now_us: int) -> float:
        """The best time to hold for, up to `buy_us`. `away`: the programs that are away at `now_us`."""
        away_us = away.bins_at(now_us)
        gain = 0.0
        best_gain = 0.0
        best_us: float = 0
        from_us: float = 0
        for at, whole_us in enumerate(_BIN_ENDS_US):
            if from_us >= buy_us:
                break
            end_us = min(whole_us, buy_us)
            gain += self._returns[at] * buy_us - self._away_us[at] - away_us[at]
            gain += _PRIOR_PROGRAMS * (end_us - from_us)
            if gain >= best_gain:
                best_gain = gain
                best_us = end_us
            from_us = end_us
        return best_us


def _add_time(bins: list[float], us: int) -> int:
    """Adds a time to the bins through which it goes. Returns the last of them."""
    from_us: float = 0
    for at, end_us in enumerate(_BIN_ENDS_US):
        bins[at] = bins[at] + min(us, end_us) - from_us
        if us < end_us:
            return at
        from_us = end_us
    return _BINS - 1
