"""Whose call it is: `session_id` and `vllm_xargs`, as the agent sets them from the ticket.

Only an agent may write the fields of a ticket; it drops what a client sent under these names. A field that is malformed
makes the whole ticket count as absent: half of a ticket would order a call by a mixture.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .handling.waste import ToolChance
from .options import IdentitySource
from .order.forecast import TOOLS_MAX, CallForecast
from .order.index_table import OBJECTIVES, Objective
from .order.program_order import SERVICE_US_MAX

#: Characters of an id; those of the control plane are shorter.
ID_CHARS_MAX = 512
TENANT_WEIGHT_MAX = 1000.0
#: Of a program's weight and its class's.
PROGRAM_WEIGHT_MAX = 10_000.0
#: The tenant of calls that name none.
NO_TENANT = ""
#: The program of a call that names none: it is its own program and leaves no state.
NO_PROGRAM = ""

LEASE = "switchyard_lease"
TENANT = "switchyard_tenant"
WEIGHT = "switchyard_weight"
PROGRAM_WEIGHT = "switchyard_program_weight"
#: Unique over tenants.
PROGRAM = "switchyard_program"
CLASS = "switchyard_class"
OBJECTIVE = "switchyard_objective"
SETTLED_SERVICE_US = "switchyard_settled_service_us"
OPEN_ELSEWHERE_US = "switchyard_open_elsewhere_us"
#: Settled and open service in one, of agents that do not tell them apart.
SERVICE_US = "switchyard_service_us"
PATH_US = "switchyard_path_us"
WAIT_US = "switchyard_wait_us"
OUTPUT_TOKENS = "switchyard_output_tokens"
OPENED_AT_MS = "switchyard_opened_at_ms"
TIE = "switchyard_tie"
#: 1 for a call of a batch.
OFFLINE = "switchyard_offline"
#: JSON: [output tokens, [[probability, duration in us, answer tokens], ...], confidence].
FORECAST = "switchyard_forecast"
FORECAST_CHARS_MAX = 1024
#: Of tokens and of microseconds. Squares of it are exact enough.
FORECAST_FIGURE_MAX = 2.0**40


class ProgramTold(NamedTuple):
    """What the ticket says of a program. Zeros say nothing: the order's own sums stand."""

    settled_service_us: int = 0
    critical_path_us: int = 0
    wait_us: int = 0
    #: Charges last reported for its open leases on other engines.
    open_elsewhere_us: int = 0
    output_tokens: int = 0


NOTHING_TOLD = ProgramTold()


@dataclass(frozen=True, slots=True)
class Identity:
    lease: str | None
    tenant: str
    tenant_weight: float
    program: str
    program_class: str | None
    #: What a learned order makes small for its program. None: as the policy is set.
    objective: Objective | None = None
    told: ProgramTold = NOTHING_TOLD
    #: The program's place among those of its tenant.
    sequence: tuple[int, int] | None = None
    #: It belongs to a batch.
    offline: bool = False
    #: Of the call. None: nothing is known.
    forecast: CallForecast | None = None
    #: It brought a ticket that could not be read.
    malformed: bool = False
    #: What the program weighs among those of its tenant.
    program_weight: float = 1.0


class _MalformedError(Exception):
    pass


def is_id(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= ID_CHARS_MAX


def identity_of(session_id: object, extra_args: object, source: IdentitySource) -> Identity:
    ticket = extra_args if source == "agent" and isinstance(extra_args, Mapping) else {}
    try:
        return _from_ticket(session_id, ticket)
    except _MalformedError:
        return Identity(None, NO_TENANT, 1.0, _session_program(session_id), None, malformed=True)


def _from_ticket(session_id: object, ticket: Mapping[Any, Any]) -> Identity:
    program = _id(ticket, PROGRAM)
    settled = SETTLED_SERVICE_US if SETTLED_SERVICE_US in ticket else SERVICE_US
    sums = [_count(ticket, name) for name in (settled, PATH_US, WAIT_US)]
    present = [value for value in sums if value is not None]
    if present and len(present) < len(sums):
        raise _MalformedError
    told = ProgramTold(*present)._replace(
        open_elsewhere_us=_count(ticket, OPEN_ELSEWHERE_US) or 0, output_tokens=_count(ticket, OUTPUT_TOKENS) or 0
    )
    opened_at_ms, tie = _count(ticket, OPENED_AT_MS), _count(ticket, TIE)
    if (opened_at_ms is None) != (tie is None):
        raise _MalformedError
    return Identity(
        lease=_id(ticket, LEASE),
        tenant=_id(ticket, TENANT) or NO_TENANT,
        tenant_weight=_weight(ticket, WEIGHT, TENANT_WEIGHT_MAX),
        program_weight=_weight(ticket, PROGRAM_WEIGHT, PROGRAM_WEIGHT_MAX),
        program=_session_program(session_id) if program is None else program,
        program_class=_id(ticket, CLASS),
        objective=_objective(ticket),
        told=told,
        sequence=None if opened_at_ms is None or tie is None else (opened_at_ms, tie),
        offline=(_count(ticket, OFFLINE) or 0) > 0,
        forecast=_forecast(ticket),
    )


def _session_program(session_id: object) -> str:
    """A session id is a client's word: kept apart from the programs that tickets name."""
    if isinstance(session_id, str) and 0 < len(session_id) <= ID_CHARS_MAX:
        return f"session:{session_id}"
    return NO_PROGRAM


def _id(ticket: Mapping[Any, Any], name: str) -> str | None:
    value = ticket.get(name)
    if value is None:
        return None
    if is_id(value):
        return str(value)
    raise _MalformedError


def _objective(ticket: Mapping[Any, Any]) -> Objective | None:
    value = ticket.get(OBJECTIVE)
    if value is None:
        return None
    for objective in OBJECTIVES:
        if value == objective:
            return objective
    raise _MalformedError


def _forecast(ticket: Mapping[Any, Any]) -> CallForecast | None:
    text = ticket.get(FORECAST)
    if text is None:
        return None
    try:
        if not isinstance(text, str) or len(text) > FORECAST_CHARS_MAX:
            raise ValueError
        output_tokens, tools, confidence = json.loads(text)
        if not isinstance(tools, list) or len(tools) > TOOLS_MAX:
            raise ValueError
        return CallForecast(_figure(output_tokens), tuple(_tool(*tool) for tool in tools), _figure(confidence, 1))
    except (ValueError, TypeError):
        raise _MalformedError from None


def _tool(probability: object, duration_us: object, answer_tokens: object) -> ToolChance:
    _figure(answer_tokens)
    return ToolChance(_figure(probability, 1), _figure(duration_us))


def _figure(value: object, most: float = FORECAST_FIGURE_MAX) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most:
        return value
    raise ValueError


def _weight(ticket: Mapping[Any, Any], name: str, most: float) -> float:
    value = ticket.get(name, 1.0)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= most:
        return float(value)
    raise _MalformedError


def _count(ticket: Mapping[Any, Any], name: str) -> int | None:
    value = ticket.get(name)
    if value is None:
        return None
    # JSON numbers may arrive as floats.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= SERVICE_US_MAX:
        return value
    raise _MalformedError
