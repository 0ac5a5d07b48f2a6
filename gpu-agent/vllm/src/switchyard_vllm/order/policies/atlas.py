"""Adaptive thread-level attained service (Autellix eq. 2): a program has attained the service along its longest chain."""

from ..program_table import ProgramSums
from .levels import ProgramLevelConfig
from .program_levels import ProgramLevels


def path_us(program: ProgramSums) -> int:
    return program.path_us


def atlas(config: ProgramLevelConfig) -> ProgramLevels:
    return ProgramLevels("atlas", path_us, config, attained_name="service along its longest path")
