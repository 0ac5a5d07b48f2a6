"""Everything that the order remembers of one open call. Plain data with its sums.

`Call` is what is known of a call when it comes; `CallState` what happens to it. seating.py, due_calls.py and
program_order.py each write the part named below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .forecast import CallForecast
from .index_table import Objective
from .policy import Place, Ties
from .service import DEFAULT_SERVICE_RATES, NO_TOKENS, ServiceRates, ServiceTokens, modelled_service_us

if TYPE_CHECKING:
    from .program_table import ProgramSums
    from .tenant_queue import TenantQueue


@dataclass(frozen=True, slots=True)
class Call:
    """One call. What concerns programs and tenants comes from the ticket; without one it is 0, as the table knows better."""

    lease: str
    tenant: str
    tenant_weight: float
    #: Unique over tenants.
    program: str
    #: Service of the program's settled leases when the ticket was made.
    settled_service_us: int
    critical_path_us: int
    #: Summed wait of the program before this call.
    program_wait_us: int
    prompt_tokens: int
    #: Charges last reported for the program's open leases on other engines.
    open_elsewhere_us: int = 0
    #: Output tokens of the program's settled leases.
    program_output_tokens: int = 0
    program_class: str = ""
    #: What a learned order makes small for its program. None: as the policy is set.
    objective: Objective | None = None
    #: When the program's run opened (ms) and a tie of 32 bits, compared as a pair; None: unknown, or no program.
    sequence: tuple[int, int] | None = None
    #: The program may have further calls. Else nothing is remembered of it once it has no open call.
    comes_back: bool = False
    #: It belongs to a batch, and ranks below every call of any tenant that does not.
    offline: bool = False
    #: None: nothing is known.
    forecast: CallForecast | None = None
    #: What its program weighs among those of its tenant: twice as much counts as half the rank.
    program_weight: float = 1.0


#: (opened_at_ms, tie) of a program, compared as a pair.
ProgramSequence = tuple[float, int]
#: Of every call where programs do not count, so that it orders none.
NO_SEQUENCE: ProgramSequence = (0, 0)
#: The order inside a tenant: the policy's rank, then the program's sequence, then the call's. Total: sequences are unique.
#: A plain tuple, as charges are: some thousand are made a second.
QueueKey = tuple[float, ProgramSequence, int]


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured of one call, given once when it ends."""

    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    service_wall_us: int
    service_modelled_us: int
    wait_us: int
    preemptions: int
    #: KV of preempted calls: saved outside the engine's slots, put back, and computed again.
    swapped_out_tokens: int
    swapped_in_tokens: int
    recomputed_tokens: int
    #: Time for which steps waited for its KV to be moved.
    swap_us: int
    first_token_us: int | None
    duration_us: int


class CallState:
    __slots__ = (
        "arrived_us",
        "cached_charged",
        "cached_tokens",
        "call",
        "charged_us",
        "computed_tokens",
        "due_key",
        "ended",
        "first_token_us",
        "holds_kv",
        "output_tokens",
        "own_sequence",
        "owner",
        "path_before_us",
        "place",
        "preemptions",
        "program",
        "program_sequence",
        "prompt_reached_tokens",
        "prompt_tokens",
        "queue_key",
        "recomputed_tokens",
        "resident_tokens",
        "seat_index",
        "seat_key",
        "seated",
        "sequence",
        "service_modelled_us",
        "service_wall_us",
        "settled",
        "swap_us",
        "swapped_in_tokens",
        "swapped_out_tokens",
        "tenant",
    )

    #: Set by the policy as soon as the program knows of the call.
    place: Place

    def __init__(self, call: Call, now_us: int, tenant: TenantQueue, program: ProgramSums, sequence: int) -> None:
        self.call = call
        self.prompt_tokens = call.prompt_tokens
        self.arrived_us = now_us
        self.tenant = tenant
        self.program = program
        self.ended = False
        #: What the driver keeps beside the call; the order does not look at it.
        self.owner: Any = None
        # Order (seating.py, due_calls.py). Keys are the call's keys in the queues that hold it.
        self.program_sequence = NO_SEQUENCE
        self.own_sequence: ProgramSequence = (now_us / 1000, sequence)
        self.sequence = sequence
        self.queue_key: QueueKey | None = None
        self.due_key: tuple[float, int] | None = None
        self.seated = False
        #: Position in the order of seats; lower is served first.
        self.seat_index = 0
        #: Its key among those that have seats, as of its last move.
        self.seat_key: QueueKey | None = None
        #: Most of its prompt's KV is on the device. Its queue writes it while it waits.
        self.holds_kv = False
        # Sums (program_order.py).
        #: The program's path when the call arrived: what led to it.
        self.path_before_us = 0
        #: Charged so far, in the ordering reading.
        self.charged_us = 0
        #: The last settling in which it was charged.
        self.settled = -1
        #: Prompt tokens whose KV is at hand: on the device, or swapped out.
        self.resident_tokens = 0
        #: Prompt tokens found resident on first scheduling, None before.
        self.cached_tokens: int | None = None
        self.cached_charged = False
        #: Prompt tokens computed at least once or found resident: what is recomputed is not charged again.
        self.prompt_reached_tokens = 0
        #: Tokens that steps computed for the call: of its prompt, of its output, and again after preemptions.
        self.computed_tokens = 0
        self.output_tokens = 0
        self.service_wall_us = 0
        self.service_modelled_us = 0
        self.preemptions = 0
        # Of its preemptions (call_meter.py).
        self.swapped_out_tokens = 0
        self.swapped_in_tokens = 0
        self.recomputed_tokens = 0
        self.swap_us = 0
        self.first_token_us: int | None = None

    def tie(self, ties: Ties) -> None:
        """A call without a program counts as one of its own, which opened when it arrived."""
        self.program_sequence = NO_SEQUENCE if ties == "call" else (self.call.sequence or self.own_sequence)

    @property
    def order_key(self) -> QueueKey:
        return (self.place.rank, self.program_sequence, self.sequence)

    def runs_before(self, other: CallState) -> bool:
        rank, others = self.place.rank, other.place.rank
        return rank < others or (rank == others and self.order_key < other.order_key)

    def is_most_of_prompt(self, device_tokens: int) -> bool:
        """Whether so many tokens on the device are most of its prompt: it can run without a long prefill or a transfer."""
        return 2 * device_tokens > self.prompt_tokens

    def reached(self, from_tokens: int, to_tokens: int) -> ServiceTokens:
        """Takes note that a step computes tokens [from, to) of the call, and says what of its prompt is new in it."""
        prompt_tokens = self.call.prompt_tokens
        if self.prompt_is_done:
            return NO_TOKENS
        if self.cached_tokens is None:
            self.cached_tokens = min(from_tokens, prompt_tokens)
        # What a resumed call finds resident was computed by another, and is not charged either.
        self.prompt_reached_tokens = max(self.prompt_reached_tokens, min(from_tokens, prompt_tokens))
        reached_tokens = min(to_tokens, prompt_tokens)
        uncached_tokens = max(0, reached_tokens - self.prompt_reached_tokens)
        self.prompt_reached_tokens += uncached_tokens
        cached_tokens = 0 if self.cached_charged else self.cached_tokens
        self.cached_charged = True
        return ServiceTokens(uncached_tokens, cached_tokens, 0)

    @property
    def prompt_is_done(self) -> bool:
        """Nothing that a step computes for it is charged but the tokens that it gives."""
        return self.cached_charged and self.prompt_reached_tokens == self.call.prompt_tokens

    def charge(
        self,
        tokens: ServiceTokens,
        computed_tokens: int,
        wall_us: int,
        ended_us: int,
        rates: ServiceRates = DEFAULT_SERVICE_RATES,
    ) -> int:
        """Adds a step of `wall_us` that ended at `ended_us` to the sums. Returns its modelled charge."""
        modelled_us = modelled_service_us(tokens, rates)
        self.computed_tokens += computed_tokens
        self.service_wall_us += wall_us
        self.service_modelled_us += modelled_us
        self.output_tokens += tokens.output_tokens
        if tokens.output_tokens > 0 and self.first_token_us is None:
            self.first_token_us = ended_us - self.arrived_us
        return modelled_us

    def measurement(self, ended_us: int) -> Measurement:
        duration_us = ended_us - self.arrived_us
        return Measurement(
            prompt_tokens=self.call.prompt_tokens,
            cached_tokens=self.cached_tokens or 0,
            output_tokens=self.output_tokens,
            service_wall_us=self.service_wall_us,
            service_modelled_us=self.service_modelled_us,
            wait_us=duration_us - self.service_wall_us,
            preemptions=self.preemptions,
            swapped_out_tokens=self.swapped_out_tokens,
            swapped_in_tokens=self.swapped_in_tokens,
            recomputed_tokens=self.recomputed_tokens,
            swap_us=self.swap_us,
            first_token_us=self.first_token_us,
            duration_us=duration_us,
        )
