"""Between the order and one vLLM scheduler: tells the order what happens, and vLLM what it decided.

vLLM orders waiting calls, and chooses whom to preempt when memory runs out, by (priority, arrival_time). The priority belongs
to us (priorities.py), so that vLLM's order, its choice of victims and ours agree, and no two open calls have the same. Stock
vLLM never preempts a running call for a waiting one, so the driver does, before vLLM's own `schedule`.

It reads and writes a few private fields of vLLM's scheduler; probe.py checks at start that they are there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .call_meter import CallMeter, Charged
from .engine_memory import MeasuredMemory
from .identity import NO_PROGRAM, identity_of
from .kv_hold import KvHold
from .options import Options, OptionsError, change_options
from .order.call_state import Call, CallState
from .order.ordered_calls import level_of
from .order.program_order import ProgramOrder
from .order.tenant_shares import TenantShares
from .positions import positions_of
from .preemption import Preemption
from .prefill_limit import PrefillLimit
from .priorities import Priorities
from .records import CallRecord
from .residency import Residency
from .seat_limit import SeatLimit
from .tool_contexts import ToolContexts

if TYPE_CHECKING:
    from .swap.connector import BulkSwapConnector


class Driver:
    def __init__(
        self,
        meter: CallMeter,
        options: Options,
        limit: PrefillLimit,
        seat_limit: SeatLimit,
        swap: BulkSwapConnector | None = None,
    ) -> None:
        self.meter = meter
        self.scheduler: Any = meter.scheduler
        self.options = options
        self._seats = meter.seats
        self.mailbox = meter.mailbox
        swap_costs = None if swap is None else swap.costs
        self.memory = MeasuredMemory(self.scheduler, None if swap_costs is None else lambda: swap_costs.current)
        policy = options.create_policy(self.mailbox.classes, self.memory.current)
        self.order = ProgramOrder(options.seating(self._seats), policy, TenantShares(), options.ordering)
        self.calls = meter.calls
        self.residency = Residency(self.scheduler, self.order, swap)
        self.tools = ToolContexts(self.scheduler, self.calls, self.memory.current, swap)
        if swap is not None and not self.tools.pinned.prefix_cache:
            swap.pinned = self.tools.pinned
        self.tools.use(policy)
        self.preemption = Preemption(
            self.scheduler, self.order, self.calls, limit, seat_limit, self._seats, swap, self.tools
        )
        self.hold = KvHold(self.scheduler, meter.kv_capacity_tokens)
        self._priorities = Priorities(self.scheduler, self.order, self._seats)
        self._seated: list[CallState] = []
        self._reorder_running = False

    # Calls come and go.

    def added(self, request: Any) -> None:
        """A request is about to be queued: it gets a place in the order."""
        now_us = self.meter.clock_us()
        extra_args = None if request.sampling_params is None else request.sampling_params.extra_args
        identity = identity_of(request.session_id, extra_args, self.options.identity)
        told = identity.told
        call = Call(
            lease=request.request_id,
            tenant=identity.tenant,
            tenant_weight=identity.tenant_weight,
            program_weight=identity.program_weight,
            program=identity.program or f"call:{request.request_id}",
            settled_service_us=told.settled_service_us,
            open_elsewhere_us=told.open_elsewhere_us,
            critical_path_us=told.critical_path_us,
            program_wait_us=told.wait_us,
            prompt_tokens=request.num_prompt_tokens,
            program_output_tokens=told.output_tokens,
            program_class=identity.program_class or "",
            objective=identity.objective,
            sequence=identity.sequence,
            comes_back=identity.program != NO_PROGRAM,
            offline=identity.offline,
            forecast=identity.forecast,
        )
        state = self.order.arrive(call, now_us, self.residency.resident(request).tokens)
        self.meter.opened(request, identity, state)
        open_call = self.calls[request.request_id]
        open_call.outlook = self.order.outlook(state)
        self.hold.arrived(state, now_us)
        self.tools.arrived(open_call)
        self._priorities.arrived(request, state)

    def freed(self, request: Any) -> CallRecord | None:
        """A request has ended in any way. Its record is published even if a step here fails. None: the request is not known."""
        open_call = self.calls.get(request.request_id)
        if open_call is None:
            return None
        now_us = self.meter.clock_us()
        state = open_call.state
        shares, wall_us = self.meter.under_way(state, now_us)
        charges = self.order.charge(shares, wall_us, now_us)
        record = self.meter.close(open_call, now_us)
        try:
            self.preemption.ended(request.request_id)
            self.order.ended(state, now_us)
            self.tools.closed(request.request_id)
            record = replace(record, handled=self.tools.ended(open_call, now_us))
        finally:
            self.meter.publish(record)
        if self.tools.rule is None:
            self.hold.ended(open_call, now_us)
        self.order.settle(charges, now_us)
        if not self.calls:
            # No step may come for a while: the last word is that nothing is left.
            self.report(now_us)
        return record

    def forget_contexts(self) -> None:
        """The KV of contexts is void."""
        self.tools.clear()

    def preempted(self, request: Any) -> None:
        open_call = self.calls.get(request.request_id)
        if open_call is None:
            return
        self.meter.preempted(open_call)
        self.preemption.seen(open_call)
        self.residency.preempted(open_call.state)

    # A step.

    def before_schedule(self, throttled: bool) -> int:
        """Decides seats, writes the order into vLLM's priorities and preempts the calls that must go.

        `throttled`: vLLM may compute no prompt in this step. Returns when the step began.
        """
        now_us = self.meter.clock_us()
        scheduler = self.scheduler
        self._change_options(now_us)
        for program in self.mailbox.left():
            self.tools.gone_elsewhere(program)
        self.tools.begin(now_us)
        self.residency.before_decision(self._seated, now_us)
        seated = self.order.decide(now_us)
        self._seated = list(seated)
        self._reorder_running |= self._priorities.write(seated)
        if scheduler.pause_state.name == "UNPAUSED":
            holds = self.options.hold_kv and self.order.policy.ties == "program" and self.tools.rule is None
            hold = self.hold if holds else None
            self.tools.grow(now_us)
            self.preemption.make_way(seated, now_us, hold, throttled=throttled)
        if self._reorder_running:
            # Decodes first, as vLLM does by itself when prompts come last: a long prompt never stalls text that is flowing.
            scheduler.running.sort(key=_running_key)
            self._reorder_running = False
        return now_us

    def after_schedule(self, output: Any, started_us: int) -> None:
        self.preemption.planned(output.num_scheduled_tokens)
        # Calls that compute a prompt run behind those that decode, in the next step.
        self._reorder_running |= output.total_num_scheduled_tokens > len(output.num_scheduled_tokens)
        self.meter.planned(output, started_us)
        self.tools.admitted(output.num_scheduled_tokens)
        if self.meter.status_due(started_us):
            self.report(started_us)

    def before_update(self, output: Any, model_output: Any) -> Charged | None:
        """Charges the step whose outcome has come, before vLLM ends any of its calls."""
        now_us = self.meter.clock_us()
        outcome = self.meter.outcome(output, model_output, now_us)
        if outcome is None:
            return None
        shares, wall_us = outcome
        self.hold.computed(shares, wall_us)
        self.memory.computed(shares, wall_us, self.hold.prefill_speed)
        charges = self.order.charge(shares, wall_us, now_us)
        self.residency.computed(charges, now_us)
        return charges, now_us

    def after_update(self, charged: Charged) -> None:
        charges, now_us = charged
        self.order.settle(charges, now_us)
        self.meter.tell_charges(now_us)

    # What the agent says and hears.

    def _change_options(self, now_us: int) -> None:
        asked = self.mailbox.asked()
        if asked is None:
            return
        number, section = asked
        try:
            self.options = change_options(self.options, section)
        except OptionsError as error:
            self.mailbox.answer({"type": "refused", "number": number, "reason": str(error)})
            return
        policy = self.options.create_policy(self.mailbox.classes, self.memory.current)
        self.tools.use(policy)
        self.order.reconfigure(self.options.seating(self._seats), policy, now_us)
        # An agent that hears the answer and asks for the status finds the change in it.
        self.report(now_us)
        self.mailbox.answer({"type": "applied", "number": number, "policy": self.options.policy})

    def tell_positions(self) -> None:
        """Answers who asked where calls are."""
        for number, leases in self.mailbox.questions():
            rows = positions_of(leases, self.calls.values(), self.order, self.meter.clock_us())
            self.mailbox.answer({"type": "positions", "number": number, "positions": rows})

    def report(self, now_us: int) -> None:
        """Leaves the status for the agent."""
        self.meter.report(now_us, {**self.counts(), "failed": False, "measures": True})

    def counts(self) -> dict[str, Any]:
        """What the status says beside the meter's figures."""
        # Of the calls without seats, less those that run all the same, and with those whose seats wait for them.
        waiting = self.order.unseated_by_level()
        for request in self.scheduler.running:
            open_call = self.calls.get(request.request_id)
            if open_call is not None and not open_call.state.seated:
                waiting[level_of(open_call.state)] -= 1
        for state in self._seated:
            if not state.ended and state.owner.request.status.name != "RUNNING":
                waiting[level_of(state)] += 1
        return {
            "policy": self.options.policy,
            "waiting_by_level": {str(level): calls for level, calls in sorted(waiting.items()) if calls > 0},
            "decisions": self.order.decisions,
            "preemptions_for_seats": self.preemption.for_seats,
            "preemptions_for_memory": self.preemption.for_memory,
            "preemptions_by_vllm": self.preemption.by_vllm,
            "holds": self.hold.counts(),
            "tools": self.tools.counts(),
            "programs": len(self.order.programs),
        }

    def restore_stock_order(self) -> None:
        """Gives every request the priority that it came with and keeps no block, as if the plug-in were not there."""
        self.tools.clear()
        self._priorities.restore(self.calls.values())


def _running_key(request: Any) -> tuple[bool, int]:
    return (request.is_prefill_chunk, request.priority)
