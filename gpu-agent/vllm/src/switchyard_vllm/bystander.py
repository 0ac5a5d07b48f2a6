"""What the plug-in does after an exception in its own code: vLLM schedules by itself, and calls go on being measured.

The order is not asked again, since what it knows of calls may no longer be true. Records, charges and the status go on, so that
no service goes unaccounted for; the status says `failed` and why, so that the agent can start the engine again when it is idle.
"""

from __future__ import annotations

from typing import Any

from .call_meter import CallMeter, Charged
from .identity import identity_of
from .options import IdentitySource
from .order.call_state import Call, CallState
from .order.program_order import StepShare
from .order.program_table import ProgramSums
from .order.tenant_queue import TenantQueue
from .records import CallRecord

#: Of the status (driver.py).
COUNTS_KEPT = (
    "policy",
    "decisions",
    "preemptions_for_seats",
    "preemptions_for_memory",
    "preemptions_by_vllm",
    "holds",
    "tools",
    "programs",
)


class Bystander:
    def __init__(self, meter: CallMeter, identity: IdentitySource, reason: str) -> None:
        """`reason`: what became of the scheduling."""
        self.meter = meter
        self._identity: IdentitySource = identity
        self._reason = reason
        # The counts of the scheduling that failed stand as they were.
        status = meter.mailbox.status()
        self._kept = {name: status[name] for name in COUNTS_KEPT if name in status}

    def added(self, request: Any) -> None:
        if request.request_id in self.meter.calls:
            return
        now_us = self.meter.clock_us()
        extra_args = None if request.sampling_params is None else request.sampling_params.extra_args
        identity = identity_of(request.session_id, extra_args, self._identity)
        tenant = TenantQueue(identity.tenant, identity.tenant_weight)
        call = Call(
            request.request_id,
            identity.tenant,
            identity.tenant_weight,
            identity.program,
            0,
            0,
            0,
            request.num_prompt_tokens,
        )
        state = CallState(call, now_us, tenant, ProgramSums(identity.program), 0)
        self.meter.opened(request, identity, state)

    def freed(self, request: Any) -> CallRecord | None:
        open_call = self.meter.calls.get(request.request_id)
        if open_call is None:
            return None
        now_us = self.meter.clock_us()
        shares, wall_us = self.meter.under_way(open_call.state, now_us)
        self._charge(shares, wall_us, now_us)
        open_call.state.ended = True
        record = self.meter.close(open_call, now_us)
        self.meter.publish(record)
        if not self.meter.calls:
            self.report(now_us)
        return record

    def forget_contexts(self) -> None:
        """It keeps none."""

    def preempted(self, request: Any) -> None:
        open_call = self.meter.calls.get(request.request_id)
        if open_call is not None:
            self.meter.preempted(open_call)

    def before_schedule(self, _throttled: bool) -> int:
        asked = self.meter.mailbox.asked()
        if asked is not None:
            reason = f"the plug-in failed ({self._reason}): vLLM schedules by itself until it is started again"
            self.meter.mailbox.answer({"type": "refused", "number": asked[0], "reason": reason})
        return self.meter.clock_us()

    def after_schedule(self, output: Any, started_us: int) -> None:
        self.meter.planned(output, started_us)
        if self.meter.status_due(started_us):
            self.report(started_us)

    def before_update(self, output: Any, model_output: Any) -> Charged | None:
        now_us = self.meter.clock_us()
        outcome = self.meter.outcome(output, model_output, now_us)
        if outcome is None:
            return None
        shares, wall_us = outcome
        self._charge(shares, wall_us, now_us)
        return [], now_us

    def after_update(self, charged: Charged) -> None:
        self.meter.tell_charges(charged[1])

    def report(self, now_us: int) -> None:
        told = {"failed": True, "failed_reason": self._reason, "measures": True}
        self.meter.report(now_us, {**self._kept, **told})

    def _charge(self, shares: list[StepShare], wall_us: int, now_us: int) -> None:
        for call, tokens, computed_tokens in shares:
            call.charge(tokens, computed_tokens, wall_us, now_us)
