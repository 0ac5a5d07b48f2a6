"""Between the core and one vLLM scheduler: tells the core what happens, and vLLM what the core decided.

vLLM orders waiting calls, and chooses whom to preempt when memory runs out, by (priority, arrival_time). Both belong to this
driver, which writes the order of seats into them, so that vLLM's order, its choice of victims and the core's always agree:
a seated call has its position as priority, one without a seat comes after all seated ones. Stock vLLM never preempts a
running call for a waiting one, so the driver does, before vLLM's own `schedule`.

It reads and writes a few private fields of vLLM's scheduler; probe.py checks at start that they are there.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from .core.call_state import Call, CallState, Measurement
from .core.process_table import ProcessTable
from .core.program_scheduler import ProgramScheduler, StepCharge, StepShare
from .core.service import ServiceTokens
from .core.tenant_shares import TenantShares
from .identity import identity_of
from .open_call import OpenCall
from .options import Options, OptionsError, change_options
from .preemption import Preemption
from .records import CallRecord, Outcome, RecordSink
from .side_channel import Mailbox
from .step_ledger import StepLedger

#: Priority of a call without a seat, plus its rank: behind every seat.
UNSEATED_PRIORITY = 1 << 20
#: The status counts over all open calls: not in every step.
STATUS_INTERVAL_US = 1_000_000

_OUTCOMES: dict[str, Outcome] = {
    "FINISHED_STOPPED": "stop",
    "FINISHED_REPETITION": "stop",
    "FINISHED_LENGTH_CAPPED": "length",
    "FINISHED_IGNORED": "length",
    "FINISHED_ABORTED": "cancelled",
}


class Driver:
    def __init__(self, scheduler: Any, options: Options, clock_us: Callable[[], int], sink: RecordSink) -> None:
        self.scheduler = scheduler
        self.options = options
        self.sink = sink
        self.clock_us = clock_us
        #: vLLM's own limit on running calls: the seats.
        self._seats = min(scheduler.max_num_active_reqs, scheduler.max_num_running_reqs)
        self.core = ProgramScheduler(
            options.seating(self._seats), options.create_policy(), TenantShares(), options.ordering
        )
        self.table = ProcessTable(options.ordering)
        self.ledger = StepLedger()
        self.mailbox = Mailbox()
        self._status_due_us = 0
        #: By request id; exactly the requests that the core has open.
        self.calls: dict[str, OpenCall] = {}
        self.preemption = Preemption(scheduler, self.core, self.calls, self._seats)
        self._seated: list[CallState] = []
        self._reorder_running = False
        self.malformed_tickets = 0

    # Calls come and go.

    def added(self, request: Any) -> None:
        """A request is about to be queued: it gets a place in the core, and its key."""
        now_us = self.clock_us()
        extra_args = None if request.sampling_params is None else request.sampling_params.extra_args
        identity = identity_of(request.session_id, extra_args, self.options.identity)
        self.malformed_tickets += identity.malformed
        inherited = identity.sums
        if identity.program:
            inherited = self.table.arrived(identity.program, identity.sums, now_us)
        call = Call(
            lease=request.request_id,
            tenant=identity.tenant,
            tenant_weight=identity.tenant_weight,
            program=identity.program,
            attained_service_us=0 if inherited is None else inherited.attained_service_us,
            critical_path_us=0 if inherited is None else inherited.critical_path_us,
            program_wait_us=0 if inherited is None else inherited.wait_us,
            prompt_tokens=request.num_prompt_tokens,
        )
        state = self.core.submit(call, now_us)
        self.calls[request.request_id] = OpenCall(request, identity, state)
        self._write_key(state)

    def freed(self, request: Any) -> CallRecord | None:
        """A request has ended, whatever way. Its record is published; None for one that is not known."""
        open_call = self.calls.pop(request.request_id, None)
        if open_call is None:
            return None
        now_us = self.clock_us()
        state, identity = open_call.state, open_call.identity
        under_way = self.ledger.leave(state, now_us)
        tokens, wall_us = under_way if under_way is not None else (ServiceTokens(0, 0, 0), 0)
        charges = self.core.charge([StepShare(state, tokens)], wall_us, now_us)
        measurement = self.core.end(state, now_us)
        self.core.settle(charges, wall_us, now_us)
        if identity.program:
            self._tell_table(identity.program, state, measurement, now_us)
        outcome = _OUTCOMES.get(request.status.name, "failed")
        record = CallRecord(
            request.request_id,
            identity.lease,
            identity.tenant,
            identity.program,
            identity.program_class,
            outcome,
            measurement,
        )
        self.sink.publish(record)
        if not self.calls:
            # No step may come for a while: the last word is that nothing is left.
            self.report(now_us)
        return record

    def _tell_table(self, program: str, state: CallState, measurement: Measurement, now_us: int) -> None:
        wall_us, modelled_us = measurement.service_wall_us, measurement.service_modelled_us
        self.table.ended(program, state.call.critical_path_us, wall_us, modelled_us, measurement.wait_us, now_us)

    def preempted(self, request: Any) -> None:
        open_call = self.calls.get(request.request_id)
        if open_call is None:
            return
        open_call.state.preemptions += 1
        open_call.output_tokens_before = request.num_output_tokens
        self.preemption.seen()

    # A step.

    def before_schedule(self) -> int:
        """Decides seats, writes them into vLLM's keys and preempts whoever must go. Returns when the step began."""
        now_us = self.clock_us()
        scheduler = self.scheduler
        self._change_options(now_us)
        seated = self.core.decide(now_us)
        self._write_keys(seated)
        if scheduler.pause_state.name == "UNPAUSED":
            self.preemption.make_way(seated)
        self._limit_admission()
        if self._reorder_running:
            # Decodes first, as vLLM does by itself when prompts come last: a long prompt never stalls text that is flowing.
            scheduler.running.sort(key=_running_key)
            self._reorder_running = False
        return now_us

    def after_schedule(self, output: Any, started_us: int) -> None:
        scheduler = self.scheduler
        scheduler.max_num_active_reqs = self._seats
        shares: list[StepShare] = []
        for request_id, tokens in output.num_scheduled_tokens.items():
            open_call = self.calls.get(request_id)
            if open_call is None:
                continue
            request = open_call.request
            # vLLM has counted the step's tokens as computed already.
            to_tokens = request.num_computed_tokens
            shares.append(StepShare(open_call.state, open_call.state.reached(to_tokens - tokens, to_tokens)))
            self._reorder_running |= tokens > 1
        if started_us >= self._status_due_us:
            self.report(started_us)
        if output.num_scheduled_tokens:
            self.ledger.begin(output, started_us, shares)

    def before_update(self, output: Any, model_output: Any) -> tuple[list[StepCharge], int, int] | None:
        """Charges the step whose outcome has come, before vLLM ends any of its calls."""
        now_us = self.clock_us()
        finished = self.ledger.finish(output, now_us)
        if finished is None:
            return None
        planned, wall_us = finished
        sampled = model_output.sampled_token_ids
        indices = model_output.req_id_to_index
        shares: list[StepShare] = []
        for call, (uncached_tokens, cached_tokens, _) in planned:
            if call.ended:
                continue
            index = indices.get(call.call.lease)
            output_tokens = len(sampled[index]) if sampled and index is not None else 0
            shares.append(StepShare(call, ServiceTokens(uncached_tokens, cached_tokens, output_tokens)))
        return self.core.charge(shares, wall_us, now_us), wall_us, now_us

    def after_update(self, charged: tuple[list[StepCharge], int, int]) -> None:
        self.core.settle(*charged)

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
        self.core.reconfigure(self.options.seating(self._seats), self.options.create_policy(), now_us)
        self.mailbox.answer({"type": "applied", "number": number, "policy": self.options.policy})

    def report(self, now_us: int) -> None:
        """Leaves the status for the agent."""
        self._status_due_us = now_us + STATUS_INTERVAL_US
        self.mailbox.set_status(self.status())

    def status(self) -> dict[str, float | str]:
        scheduler = self.scheduler
        requests = [open_call.request for open_call in self.calls.values()]
        running = sum(one.status.name == "RUNNING" for one in requests)
        return {
            "policy": self.options.policy,
            "waiting": len(requests) - running,
            "running": running,
            "queued_tokens": sum(max(0, one.num_prompt_tokens - one.num_computed_tokens) for one in requests),
            "kv_used": scheduler.kv_cache_manager.usage,
            "decisions": self.core.decisions,
            "preemptions_for_seats": self.preemption.for_seats,
            "preemptions_for_memory": self.preemption.for_memory,
            "preemptions_by_vllm": self.preemption.by_vllm,
            "malformed_tickets": self.malformed_tickets,
            "programs": len(self.table),
            "lost_steps": self.ledger.lost,
            "failures": 0,
        }

    # Keys.

    def _write_keys(self, seated: list[CallState]) -> None:
        moved = self.core.take_moved()
        if not moved and seated == self._seated:
            return
        changed = False
        for state in (*moved, *self._seated, *seated):
            changed |= self._write_key(state)
        self._seated = list(seated)
        if changed:
            self._reorder_running = True
            # A heap whose keys were changed is no heap. `remove_requests` rebinds `_heap`, so it is asked for each time.
            heapq.heapify(self.scheduler.waiting._heap)
            heapq.heapify(self.scheduler.kv_holding_waiting._heap)

    def _write_key(self, state: CallState) -> bool:
        if state.ended:
            return False
        request = self.calls[state.call.lease].request
        key = (state.seat_index, 0.0) if state.seated else (UNSEATED_PRIORITY + state.place.rank, float(state.sequence))
        if (request.priority, request.arrival_time) == key:
            return False
        request.priority, request.arrival_time = key
        return True

    def restore_stock_order(self) -> None:
        """Gives every request the key that it came with, and vLLM its own limit: as if the plug-in were not there."""
        for open_call in self.calls.values():
            open_call.request.priority, open_call.request.arrival_time = open_call.stock_key
        heapq.heapify(self.scheduler.waiting._heap)
        heapq.heapify(self.scheduler.kv_holding_waiting._heap)
        self.scheduler.max_num_active_reqs = self._seats

    def _limit_admission(self) -> None:
        """Keeps vLLM from giving a seat that is held for a program to a call that has none."""
        scheduler = self.scheduler
        if len(self._seated) >= self._seats or self.core.open_calls <= len(self._seated):
            return
        occupied_seats = len(scheduler.running) + scheduler.num_waiting_for_streaming_input
        scheduler.max_num_active_reqs = min(self._seats, max(occupied_seats, len(self._seated)))


def _running_key(request: Any) -> tuple[bool, float, float]:
    return (request.is_prefill_chunk, request.priority, request.arrival_time)
