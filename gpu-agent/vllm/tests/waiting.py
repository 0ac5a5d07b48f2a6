"""Waiting for what another thread does, for as long as a loaded machine may need."""

import time
from collections.abc import Callable

WAIT_S_MAX = 60
POLL_S = 0.005


def eventually(holds: Callable[[], bool]) -> None:
    until_s = time.monotonic() + WAIT_S_MAX
    while not holds():
        if time.monotonic() > until_s:
            raise AssertionError(f"not within {WAIT_S_MAX} s")
        time.sleep(POLL_S)
