"""The order of work on a device: streams run what they are given one after another, and wait for each other's fences.

On CUDA these are streams and events, and nothing here makes the host wait. Without CUDA all work is done when it is given.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import torch


class Fence(Protocol):
    def done(self) -> bool: ...

    def seconds_since(self, earlier: Fence) -> float:
        """Between two fences that are done."""
        ...


class Stream(Protocol):
    def run(self, work: Callable[[], object]) -> None: ...

    def wait(self, fence: Fence) -> None:
        """Work given from here on starts after the fence."""
        ...

    def record(self) -> Fence:
        """Done once all work given so far is."""
        ...


class Streams(Protocol):
    """`compute` is where the forward pass runs, `out` copies to the host, `into` copies from it."""

    @property
    def compute(self) -> Stream: ...

    @property
    def out(self) -> Stream: ...

    @property
    def into(self) -> Stream: ...

    def finish(self) -> None:
        """The host waits for all work."""
        ...


def streams_of(device: Any) -> Streams:
    return CudaStreams(device) if device.type == "cuda" else HostStreams()


class _HostFence:
    def __init__(self) -> None:
        self._at_s = time.perf_counter()

    def done(self) -> bool:
        return True

    def seconds_since(self, earlier: Any) -> float:
        return float(self._at_s - earlier._at_s)


class _HostStream:
    def run(self, work: Callable[[], object]) -> None:
        work()

    def wait(self, fence: Fence) -> None:
        assert fence.done()

    def record(self) -> Fence:
        return _HostFence()


class HostStreams:
    def __init__(self) -> None:
        self.compute = self.out = self.into = _HostStream()

    def finish(self) -> None:
        pass


class _CudaFence:
    def __init__(self, stream: Any) -> None:
        self.event = torch.cuda.Event(enable_timing=True)
        self.event.record(stream)

    def done(self) -> bool:
        return bool(self.event.query())

    def seconds_since(self, earlier: Any) -> float:
        return float(earlier.event.elapsed_time(self.event)) / 1000


class _CudaStream:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def run(self, work: Callable[[], object]) -> None:
        with torch.cuda.stream(self._stream):
            work()

    def wait(self, fence: Any) -> None:
        self._stream.wait_event(fence.event)

    def record(self) -> Fence:
        return _CudaFence(self._stream)


class CudaStreams:
    def __init__(self, device: Any) -> None:
        self._device = device
        self.out = _CudaStream(torch.cuda.Stream(device))
        self.into = _CudaStream(torch.cuda.Stream(device))

    @property
    def compute(self) -> Stream:
        # vLLM decides which stream its forward pass runs on.
        return _CudaStream(torch.cuda.current_stream(self._device))

    def finish(self) -> None:
        torch.cuda.synchronize(self._device)
