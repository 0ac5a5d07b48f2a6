"""What the plug-in keeps of a vLLM request beside the core's state of the call."""

from __future__ import annotations

from typing import Any

from .core.call_state import CallState
from .identity import Identity


class OpenCall:
    """What the driver keeps of a request beside the core's state."""

    __slots__ = ("identity", "output_tokens_before", "request", "state", "stock_key")

    def __init__(self, request: Any, identity: Identity, state: CallState) -> None:
        self.request = request
        self.identity = identity
        self.state = state
        #: Priority and arrival time that it came with.
        self.stock_key = (request.priority, request.arrival_time)
        #: Tokens that it had given when it was last preempted.
        self.output_tokens_before = 0
