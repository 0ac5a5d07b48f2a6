"""Algorithm 1's levels (Autellix §4.2.2): queues Q1…QK, each with a quantum of service that a call may use there.

Level k ends where the sum of the first k quanta does. The same as `gpu-agent/engine/order/policies/levels/levels.ts`.
"""

import math
from dataclasses import dataclass
from itertools import accumulate

from ..numbers import round_half_up
from ..service import ServiceReading

LEVELS_MAX = 64


@dataclass(frozen=True, slots=True)
class LevelConfig:
    #: K: number of queues.
    levels: int
    #: Quantum of Q1, in the ordering reading of service.
    first_quantum_us: float
    #: Each level's quantum is this many times the one before.
    quantum_ratio: float
    #: beta: wait over service at which a call is promoted.
    promotion_ratio: float
    #: Hysteresis: a call that has a seat yields to one that is better by so many levels, at least.
    preemption_levels_min: float = 1


@dataclass(frozen=True, slots=True)
class ProgramLevelConfig(LevelConfig):
    #: What computing a prompt token costs, in the ordering reading; a generated one costs 500 us of modelled service.
    prefill_us_per_token: float = 72
    #: Resident prompt tokens lift their program by so many times what computing them costs.
    resident_weight: float = 2


#: Levels of programs. `gpu-agent/engine/order/policies/plas/README.md` has the reasons.
PROGRAM_LEVELS: dict[ServiceReading, ProgramLevelConfig] = {
    "modelled": ProgramLevelConfig(levels=22, first_quantum_us=5_000, quantum_ratio=1.4, promotion_ratio=800),
    "wall": ProgramLevelConfig(levels=22, first_quantum_us=200_000, quantum_ratio=1.4, promotion_ratio=20),
}


#: As `CPU_PREFILL_US_PER_TOKEN` in levels.ts.
_CPU_PREFILL_US_PER_TOKEN: dict[ServiceReading, float] = {"modelled": 300, "wall": 5_200}
#: As in levels.ts.
CPU_RESIDENT_WEIGHT = 0.5


def cpu_prefill_us_per_token(policy: str, reading: ServiceReading) -> float:
    """What computing a prompt token costs on a CPU. learned counts it beside generated tokens, in either reading."""
    return _CPU_PREFILL_US_PER_TOKEN["modelled" if policy == "learned" else reading]


class Levels:
    def __init__(self, name: str, config: LevelConfig) -> None:
        """`name`: of the policy, for error messages. Raises ValueError."""
        if not 1 <= config.levels <= LEVELS_MAX:
            raise ValueError(f"{name}: levels must be an integer from 1 to {LEVELS_MAX}")
        if not config.first_quantum_us > 0:
            raise ValueError(f"{name}: first_quantum_us must be positive")
        if not config.quantum_ratio >= 1:
            raise ValueError(f"{name}: quantum_ratio must be at least 1")
        if not config.promotion_ratio > 0:
            raise ValueError(f"{name}: promotion_ratio must be positive")
        if not config.preemption_levels_min >= 0:
            raise ValueError(f"{name}: preemption_levels_min must not be negative")
        #: By level. The last quantum is infinite.
        self.quantum_us: list[float] = [_quantum_us(config, level) for level in range(config.levels - 1)]
        self.quantum_us.append(math.inf)
        #: Service at which a level ends. The last is infinite. `bisect_right` finds the level of a service.
        self.end_us: list[float] = list(accumulate(self.quantum_us))

    def shown(self, level: float) -> str:
        """`Q2 of 22`: Q1 goes first."""
        return f"Q{int(level) + 1} of {len(self.end_us)}"


def _quantum_us(config: LevelConfig, level: int) -> float:
    try:
        return round_half_up(config.first_quantum_us * float(config.quantum_ratio) ** level)
    except OverflowError:
        return math.inf
