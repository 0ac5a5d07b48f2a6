"""Measures calls on one vLLM scheduler: who is open, what each step computes for whom and takes, and the record of each end.

It decides nothing. The driver orders calls by what it measures here, and when that fails it goes on alone (bystander.py), so
that every call is accounted for either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .identity import Identity
from .mailbox import Mailbox
from .open_call import OpenCall
from .open_charges import OpenCharges
from .order.call_state import CallState
from .order.program_order import StepCharge, StepShare
from .records import CallRecord, Outcome, RecordSink
from .step_ledger import StepLedger
from .swap.image import NOBODY, ImageOwner

if TYPE_CHECKING:
    from .swap.connector import BulkSwapConnector

#: How often the agent is told what open calls have cost: what a kill -9 of this process leaves untold, at most.
CHARGES_INTERVAL_US = 200_000
#: The status counts over all open calls: not in every step.
STATUS_INTERVAL_US = 1_000_000

#: The charges of a step, and when it ended.
Charged = tuple[list[StepCharge], int]

_OUTCOMES: dict[str, Outcome] = {
    "FINISHED_STOPPED": "stop",
    "FINISHED_REPETITION": "stop",
    "FINISHED_LENGTH_CAPPED": "length",
    "FINISHED_IGNORED": "length",
    "FINISHED_ABORTED": "cancelled",
}


class CallMeter:
    def __init__(
        self, scheduler: Any, clock_us: Callable[[], int], sink: RecordSink, mailbox: Mailbox | None = None
    ) -> None:
        self.scheduler = scheduler
        self.clock_us = clock_us
        self.sink = sink
        self.mailbox = Mailbox() if mailbox is None else mailbox
        #: vLLM's own limit on running calls: the seats.
        self.seats = min(scheduler.max_num_active_reqs, scheduler.max_num_running_reqs)
        self.kv_capacity_tokens = _kv_capacity_tokens(scheduler)
        #: By request id; exactly the requests that vLLM has open.
        self.calls: dict[str, OpenCall] = {}
        #: Of them, when they came.
        self._prompt_tokens = 0
        self.ledger = StepLedger()
        #: Preempted calls that have not been scheduled again.
        self._away: set[str] = set()
        self._charges = OpenCharges()
        self._charges_due_us = 0
        self._status_due_us = 0
        #: A status was left since `take_news`.
        self._news = False
        self.malformed_tickets = 0
        # Of preempted calls since start, as in their records.
        self.swapped_out_tokens = 0
        self.swapped_in_tokens = 0
        self.recomputed_tokens = 0
        self.swap_us = 0
        #: None: this engine does not swap.
        self.swap: BulkSwapConnector | None = None
        #: Time in the plug-in's own code, and the steps that it was spent over (mixin.py).
        self.decision_ns = 0
        self.steps = 0
        #: Exceptions in the plug-in (mixin.py).
        self.failures = 0

    def opened(self, request: Any, identity: Identity, state: CallState) -> None:
        self.malformed_tickets += identity.malformed
        self.calls[request.request_id] = OpenCall(request, identity, state)
        self._prompt_tokens += state.prompt_tokens
        if identity.lease is not None:
            self._charges.opened(identity.lease)

    def planned(self, output: Any, started_us: int) -> None:
        """vLLM has scheduled a step, and counts its tokens as computed already."""
        if not output.num_scheduled_tokens:
            return
        self.steps += 1
        calls = self.calls
        if self._away:
            self._back(output.num_scheduled_tokens, started_us)
        shares: list[StepShare] = []
        for request_id, tokens in output.num_scheduled_tokens.items():
            open_call = calls.get(request_id)
            if open_call is None:
                continue
            state = open_call.state
            if tokens == 1 and state.prompt_is_done:
                shares.append(open_call.decode)
                continue
            to_tokens = open_call.request.num_computed_tokens
            shares.append(StepShare(state, state.reached(to_tokens - tokens, to_tokens), tokens))
        self.ledger.begin(output, started_us, shares)

    def preempted(self, open_call: OpenCall) -> None:
        """It still has its blocks."""
        open_call.state.preemptions += 1
        open_call.pause(self.clock_us())
        self.recomputed_tokens += open_call.leaves()
        self._away.add(open_call.request.request_id)

    def _back(self, scheduled: Mapping[str, int], now_us: int) -> None:
        for lease in self._away.intersection(scheduled):
            self._away.discard(lease)
            open_call = self.calls.get(lease)
            if open_call is not None:
                open_call.resume(now_us)
                open_call.resumed_at_tokens = open_call.request.num_computed_tokens - scheduled[lease]

    # What the swap writes down (swap/swap_scheduler.py).

    def swapped_out(self, request_id: str, tokens: int) -> None:
        open_call = self.calls.get(request_id)
        if open_call is not None:
            open_call.state.swapped_out_tokens += tokens
            self.swapped_out_tokens += tokens

    def swapped_in(self, request_id: str, tokens: int) -> None:
        open_call = self.calls.get(request_id)
        if open_call is not None:
            open_call.state.swapped_in_tokens += tokens
            self.swapped_in_tokens += tokens

    def swap_took(self, request_id: str, swap_us: int) -> None:
        open_call = self.calls.get(request_id)
        if open_call is not None:
            open_call.state.swap_us += swap_us
            self.swap_us += swap_us

    def outcome(self, output: Any, model_output: Any, now_us: int) -> tuple[list[StepShare], int] | None:
        """What a step that has ended computed for the calls that are still open, and its own duration."""
        finished = self.ledger.finish(output, now_us)
        if finished is None:
            return None
        planned, wall_us = finished
        sampled = model_output.sampled_token_ids
        indices = model_output.req_id_to_index
        shares: list[StepShare] = []
        for share in planned:
            call, tokens, computed_tokens = share
            if call.ended:
                continue
            index = indices.get(call.call.lease)
            output_tokens = len(sampled[index]) if sampled and index is not None else 0
            if output_tokens == 1 and share is call.owner.decode:
                shares.append(call.owner.decoded)
            else:
                shares.append(StepShare(call, tokens._replace(output_tokens=output_tokens), computed_tokens))
        return shares, wall_us

    def under_way(self, state: CallState, now_us: int) -> tuple[list[StepShare], int]:
        """What the steps under way compute for a call that ends in them, and its part of their time."""
        left = self.ledger.leave(state, now_us)
        return ([], 0) if left is None else ([left[0]], left[1])

    def close(self, open_call: OpenCall, now_us: int) -> CallRecord:
        """A call has ended and was charged for the last time. Its record is still to be published."""
        request, identity, state = open_call.request, open_call.identity, open_call.state
        del self.calls[request.request_id]
        self._prompt_tokens -= state.prompt_tokens
        self._away.discard(request.request_id)
        self.recomputed_tokens += open_call.leaves()
        open_call.resume(now_us)
        if identity.lease is not None and self._charges.ended(identity.lease, state):
            self.mailbox.forget_charges(identity.lease)
        return CallRecord(
            request.request_id,
            identity.lease,
            identity.tenant,
            identity.program,
            identity.program_class,
            _OUTCOMES.get(request.status.name, "failed"),
            state.computed_tokens,
            state.measurement(now_us),
            open_call.outlook,
            pauses=tuple(open_call.pauses.over),
        )

    def publish(self, record: CallRecord) -> None:
        self.sink.publish(record)

    def owner_of(self, request_id: str) -> ImageOwner:
        """Whose KV an image of the call holds."""
        open_call = self.calls.get(request_id)
        if open_call is None:
            return NOBODY
        return ImageOwner(open_call.state.call.tenant, open_call.state.call.tenant_weight)

    def tell_charges(self, now_us: int) -> None:
        """Leaves what open calls have cost for the agent, when it is time."""
        if now_us < self._charges_due_us or not self.mailbox.heard:
            return
        self._charges_due_us = now_us + CHARGES_INTERVAL_US
        open_calls = self.calls.values()
        self.mailbox.set_charges(self._charges.sums((one.identity.lease, one.state) for one in open_calls))

    def status_due(self, now_us: int) -> bool:
        return now_us >= self._status_due_us

    def report(self, now_us: int, more: dict[str, Any]) -> None:
        """Leaves the status for the agent. `more` is what only the decider knows."""
        self._status_due_us = now_us + STATUS_INTERVAL_US
        self._news = True
        self.mailbox.set_status({**self.status(), **more})

    def take_news(self) -> bool:
        news, self._news = self._news, False
        return news

    def status(self) -> dict[str, Any]:
        scheduler = self.scheduler
        running = [request for request in scheduler.running if request.request_id in self.calls]
        return {
            "seats": self.seats,
            "waiting": len(self.calls) - len(running),
            "running": len(running),
            "queued_tokens": self._queued_tokens([*running, *scheduler.kv_holding_waiting]),
            "kv_used": scheduler.kv_cache_manager.usage,
            "kv_capacity_tokens": self.kv_capacity_tokens,
            "malformed_tickets": self.malformed_tickets,
            "lost_steps": self.ledger.lost,
            "steps": self.steps,
            "swapped_out_tokens": self.swapped_out_tokens,
            "swapped_in_tokens": self.swapped_in_tokens,
            "recomputed_tokens": self.recomputed_tokens,
            "swap_us": self.swap_us,
            **({} if self.swap is None else _swap_status(self.swap)),
            "decision_us": self.decision_ns // 1000,
            "failures": self.failures,
        }

    def _queued_tokens(self, computed: Iterable[Any]) -> int:
        """Prompt tokens that are still to be computed. `computed`: the calls of which something is."""
        tokens = self._prompt_tokens
        for request in computed:
            open_call = self.calls.get(request.request_id)
            if open_call is not None:
                left_tokens = max(0, request.num_prompt_tokens - request.num_computed_tokens)
                tokens += left_tokens - open_call.state.prompt_tokens
        return tokens


def _swap_status(swap: BulkSwapConnector) -> dict[str, Any]:
    return {"swap_costs": swap.costs.as_dict(), "swap_declined": swap.declined, "swap_failed": swap.failed}


def _kv_capacity_tokens(scheduler: Any) -> int:
    """As vLLM itself counts it: layers of several kinds take blocks of their own."""
    config = scheduler.kv_cache_config
    return int(config.num_blocks // len(config.kv_cache_groups) * scheduler.block_size)
