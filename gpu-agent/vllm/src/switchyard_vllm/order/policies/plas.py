"""Program-level attained service (Autellix §4.2.1, eq. 1): the geometric mean of a program's summed service and its path.

The sum alone takes a wide program for a long one, and the path alone lets a wide program take many seats at a short one's
rank. `gpu-agent/engine/order/policies/plas/README.md` has the figures.
"""

from math import sqrt

from ..program_table import ProgramSums
from .levels import ProgramLevelConfig
from .program_levels import ProgramLevels


def sum_and_path_us(program: ProgramSums) -> float:
    return sqrt(program.service_us * program.path_us)


def plas(config: ProgramLevelConfig) -> ProgramLevels:
    return ProgramLevels("plas", sum_and_path_us, config, attained_name="attained service")
