"""What the plug-in keeps of a vLLM request beside the order's state of the call."""

from __future__ import annotations

from typing import Any

from .identity import Identity
from .order.call_state import CallState
from .order.policy import Outlook
from .order.program_order import StepShare
from .order.service import NO_TOKENS, ONE_TOKEN
from .pauses import Pauses

_ANSWERED = ("FINISHED_STOPPED", "FINISHED_LENGTH_CAPPED", "FINISHED_REPETITION")


class OpenCall:
    """What the driver keeps of a request beside the order's state."""

    __slots__ = (
        "decode",
        "decoded",
        "identity",
        "outlook",
        "output_tokens_at_admission",
        "pauses",
        "reached_tokens",
        "request",
        "resumed_at_tokens",
        "state",
        "stock_priority",
    )

    def __init__(self, request: Any, identity: Identity, state: CallState) -> None:
        self.request = request
        self.identity = identity
        self.state = state
        #: What the policy knew of it when it came. None: nothing that means anything outside of it.
        self.outlook: Outlook | None = None
        #: That it came with.
        self.stock_priority = request.priority
        #: Tokens that it had given when it was last admitted.
        self.output_tokens_at_admission = 0
        #: Of which KV was computed before it was last preempted.
        self.reached_tokens = 0
        #: Tokens of which KV was at hand when it last came back; None: it was not preempted, or is not back.
        self.resumed_at_tokens: int | None = None
        self.pauses = Pauses()
        #: Its share of a step that only decodes, as planned and as it comes out: most are of these.
        self.decode = StepShare(state, NO_TOKENS, 1)
        self.decoded = StepShare(state, ONE_TOKEN, 1)
        state.owner = self

    def leaves_context(self) -> bool:
        """It was answered, and its program has no other open call and may come back."""
        status = self.request.status.name
        return self.state.program.open_calls == 0 and self.state.call.comes_back and status.startswith(_ANSWERED)

    def pause(self, now_us: int) -> None:
        """It was preempted."""
        self.pauses.begin(now_us - self.state.arrived_us, self._moved_tokens())

    def resume(self, now_us: int) -> None:
        """It is scheduled again, or ends."""
        self.pauses.end(now_us - self.state.arrived_us, self._moved_tokens())

    def _moved_tokens(self) -> int:
        return int(self.state.swapped_out_tokens + self.state.swapped_in_tokens)

    def leaves(self) -> int:
        """It is about to lose its blocks. Returns how many tokens it has computed again since it last came back."""
        request = self.request
        computed_tokens = max(0, int(request.num_computed_tokens - request.num_output_placeholders))
        again_tokens = 0
        if self.resumed_at_tokens is not None:
            again_tokens = max(0, min(computed_tokens, self.reached_tokens) - self.resumed_at_tokens)
        self.state.recomputed_tokens += again_tokens
        self.reached_tokens = max(self.reached_tokens, computed_tokens)
        self.resumed_at_tokens = None
        return again_tokens
