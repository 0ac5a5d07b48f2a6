"""What a scheduling policy decides: the order of calls inside one tenant, and nothing else.

A policy holds no queue. It gives each call a Place whose `rank` orders it: lower runs first. Calls of equal rank run by their
program's sequence (`ties` "program"), or in the order in which they came to that rank ("call"). It is told what can move a
call: it was charged, another call of its program was, or the time came at which it asked to be looked at. A rank is any
float. The same contract as `gpu-agent/engine/order/policy.ts`, which holds the reasons.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from ..handling.waste import HandlingChoice, HandlingRule, MemoryCosts, TimeCurve

if TYPE_CHECKING:
    from .call_state import Call
    from .index_table import IndexTable
    from .program_table import ProgramSums

Ties = Literal["program", "call"]
#: A time that never comes.
NEVER_US = math.inf


class Place:
    """A policy's view of one call. A policy extends it by what it must remember, and owns its contents."""

    __slots__ = ("rank",)

    def __init__(self, rank: float) -> None:
        #: Lower runs first.
        self.rank = rank


class PolicyCall(Protocol):
    """What a policy may see of a call; `resident_tokens` changes while the call is open."""

    @property
    def call(self) -> Call: ...

    @property
    def prompt_tokens(self) -> int: ...

    @property
    def resident_tokens(self) -> int:
        """Prompt tokens whose KV is at hand: in a prefix that the call would take, or computed for it."""
        ...

    @property
    def program(self) -> ProgramSums: ...


class Charge(NamedTuple):
    """What a step cost a call."""

    wall_us: int
    #: In the ordering reading of service.
    charge_us: int
    #: Prompt tokens computed.
    prefill_tokens: int
    output_tokens: int


P = TypeVar("P", bound=Place)


@dataclass(slots=True)
class EngineMemory:
    """What a policy knows of an engine's memory before a call runs. Its owner corrects it while it serves."""

    costs: MemoryCosts
    #: How long a step usually lasts.
    step_us: float
    #: KV tokens that the other calls of a batch usually have.
    other_tokens: float


def reference_memory() -> EngineMemory:
    """The reference engine of the service rates, with 60 GB for KV, most of it in use."""
    forward = TimeCurve(base_us=6_000, free_tokens=0, per_token_us=125, per_pair_us=0)
    swap = TimeCurve(base_us=30, free_tokens=0, per_token_us=5.2, per_pair_us=0)
    return EngineMemory(MemoryCosts(forward, swap, kv_bytes_per_token=131_072), step_us=20_000, other_tokens=300_000)


class ClassLookup(Protocol):
    """What is known about classes of programs. It changes as programs end."""

    def table_of(self, tenant: str, program_class: str, objective: str) -> IndexTable | None:
        """The table by which programs of this class are ordered. None: nothing is known of its tenant's classes."""
        ...


class Outlook(NamedTuple):
    """What a policy knows of a call when it comes, for people."""

    rank: float
    #: Output that its program is expected to have from there on. None: the policy does not learn, and the rank is a level.
    expected_remaining_tokens: float | None = None

    def known(self) -> dict[str, float]:
        return {name: value for name, value in self._asdict().items() if value is not None}


@runtime_checkable
class HandlesContexts(Protocol):
    """It has contexts handled while tools run. Those of other policies stay as prefixes."""

    @property
    def handling(self) -> HandlingRule: ...


@runtime_checkable
class DecidesEarly(Protocol):
    def handling_of(self, place: Any) -> HandlingChoice | None:
        """What it decided, before the call ran, for its context while the tool runs. None: no tool is expected."""
        ...


@runtime_checkable
class Foresees(Protocol):
    def outlook(self, place: Any) -> Outlook: ...


class Policy(Protocol[P]):
    @property
    def name(self) -> str: ...

    @property
    def ties(self) -> Ties: ...

    @property
    def refreshes(self) -> bool:
        """Whether `refresh` may ever change a rank. If not, it need not be asked."""
        ...

    def arrive(self, call: PolicyCall, now_us: int) -> P:
        """The place of a call that arrived at `now_us`."""
        ...

    def charge(self, place: P, charge: Charge, now_us: int) -> bool:
        """The call was charged. True: it moves, since its rank changed or it goes to the tail of its rank."""
        ...

    def refresh(self, place: P, now_us: int) -> bool:
        """Its program was charged for another call, another call of it ended, or the call's resident tokens changed.

        True: its rank changed.
        """
        ...

    def yields_to(self, worst: P, best: P) -> bool:
        """Whether `worst`, which has a seat, gives it to `best`, which waits and runs before it."""
        ...

    def due_us(self, place: P) -> float:
        """When the call must be offered to `due` if it is in no step until then."""
        ...

    def due(self, place: P, now_us: int) -> bool:
        """Offered at or after `due_us`. True: it goes to the tail of its (possibly same) rank."""
        ...

    def position(self, place: P) -> str:
        """For people who ask why the call waits: by what it is ordered at this moment."""
        ...
