"""The policies that an engine can be started with, by name."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from ..policy import ClassLookup, EngineMemory, Policy, Ties, reference_memory
from ..service import DEFAULT_SERVICE_RATES, ServiceRates, ServiceReading
from .atlas import atlas
from .fcfs import Fcfs
from .infercept import SERVED_IN_ORDER, Infercept
from .lamps import Lamps, LampsConfig
from .learned import LEARNED, Learned
from .learned_memory import LearnedMemory
from .levels import PROGRAM_LEVELS
from .mlfq import MLFQ_DEFAULTS, Mlfq
from .plas import plas
from .rr import RR_DEFAULTS, Rr

#: Those that have contexts handled while tools run.
MEMORY_POLICY_NAMES = ("lamps", "learned-memory", *SERVED_IN_ORDER)
POLICY_NAMES = ("fcfs", "fcfs-program", "mlfq", "rr", "plas", "atlas", "learned", *MEMORY_POLICY_NAMES)


def create_policy(
    name: str,
    parameters: Mapping[str, Any] = {},
    reading: ServiceReading = "modelled",
    rates: ServiceRates = DEFAULT_SERVICE_RATES,
    classes: ClassLookup | None = None,
    memory: EngineMemory | None = None,
) -> Policy[Any]:
    """`parameters` replaces defaults, which depend on the reading. `classes`: what is known of them. None: nothing.
    `memory`: what the engine's memory costs, for policies that weigh it. None: as in a usual engine.

    Raises ValueError for what no policy can be made of.
    """
    if reading not in get_args(ServiceReading):
        raise ValueError(f"reading must be one of {', '.join(get_args(ServiceReading))}, not {reading!r}")
    if parameters.get("ties", "call") not in get_args(Ties):
        raise ValueError(f"ties must be one of {', '.join(get_args(Ties))}, not {parameters['ties']!r}")
    try:
        if name in ("fcfs", "fcfs-program"):
            if parameters:
                raise TypeError
            return Fcfs("call" if name == "fcfs" else "program")
        if name == "rr":
            return Rr(replace(RR_DEFAULTS[reading], **parameters))
        if name == "mlfq":
            return Mlfq(replace(MLFQ_DEFAULTS[reading], **parameters))
        if name == "plas":
            return plas(replace(PROGRAM_LEVELS[reading], **parameters))
        if name == "atlas":
            return atlas(replace(PROGRAM_LEVELS[reading], **parameters))
        if name == "learned":
            return Learned(replace(LEARNED[reading], **parameters), rates, classes)
        if name == "lamps":
            return Lamps(LampsConfig(**parameters), memory or reference_memory())
        if name == "learned-memory":
            return LearnedMemory(LampsConfig(**parameters), memory or reference_memory(), classes)
        for served in SERVED_IN_ORDER:
            if name == served:
                return Infercept(served, **parameters)
    except TypeError:
        raise ValueError(f"policy {name} has no parameter set {sorted(parameters)}") from None
    raise ValueError(f"policy must be one of {', '.join(POLICY_NAMES)}, not {name!r}")
