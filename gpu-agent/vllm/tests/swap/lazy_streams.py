"""Streams that do their work later, interleaved at random: what a missing fence breaks, some interleaving shows."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any

from switchyard_vllm.swap.streams import Stream


class LazyFence:
    def __init__(self) -> None:
        self.passed = False

    def done(self) -> bool:
        return self.passed

    def seconds_since(self, earlier: Any) -> float:
        assert self.passed and earlier.passed
        return 0.0


class LazyStream:
    def __init__(self, streams: LazyStreams) -> None:
        self._streams = streams
        self.queue: deque[Callable[[], object] | LazyFence] = deque()

    def run(self, work: Callable[[], object]) -> None:
        self.queue.append(work)

    def wait(self, fence: Any) -> None:
        if self._streams.waits_count:
            self.queue.append(_Wait(fence))

    def record(self) -> LazyFence:
        fence = LazyFence()
        self.queue.append(fence)
        return fence

    def can_step(self) -> bool:
        return bool(self.queue) and not (isinstance(self.queue[0], _Wait) and not self.queue[0].fence.passed)

    def step(self) -> None:
        first = self.queue.popleft()
        if isinstance(first, LazyFence):
            first.passed = True
        elif not isinstance(first, _Wait):
            first()


class _Wait:
    def __init__(self, fence: LazyFence) -> None:
        self.fence = fence

    def __call__(self) -> None:
        raise AssertionError("a wait is no work")


class LazyStreams:
    def __init__(self, seed: int, *, waits_count: bool = True) -> None:
        """`waits_count` False: streams do not wait for each other, as if every fence were forgotten."""
        self.waits_count = waits_count
        self._lazy = [LazyStream(self) for _ in range(3)]
        self.compute: Stream
        self.out: Stream
        self.into: Stream
        self.compute, self.out, self.into = self._lazy
        self._random = random.Random(seed)

    def advance(self, steps: int) -> None:
        for _ in range(steps):
            ready = [stream for stream in self._lazy if stream.can_step()]
            if not ready:
                return
            self._random.choice(ready).step()

    def finish(self) -> None:
        while self._left() > 0:
            before = self._left()
            self.advance(1)
            assert self._left() < before, "the streams wait for each other"

    def _left(self) -> int:
        return sum(len(stream.queue) for stream in self._lazy)
