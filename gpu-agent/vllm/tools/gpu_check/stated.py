"""Programs for who makes tables of their kinds: `python -m gpu_check.stated`. Others than those that are played.

One line of JSON: `[{"kind", "calls": [{"parents", "added_prompt_tokens", "output_tokens", "tool_us"}]}]`.
"""

from __future__ import annotations

import json
from typing import Any

from .plays import LOADED_PROGRAMS
from .programs import Program, programs_of

PROGRAMS = 400
#: Beside the seed that is played.
OTHER_SEED = 1000


def stated() -> list[dict[str, Any]]:
    told = []
    for played in LOADED_PROGRAMS.values():
        others = {**played, "seed": played["seed"] + OTHER_SEED, "programs": PROGRAMS}
        told += [{"kind": program.kind, "calls": calls_of(program)} for program in programs_of(**others)]
    return told


def calls_of(program: Program) -> list[dict[str, Any]]:
    return [
        {
            "parents": [index - 1] if index else [],
            "added_prompt_tokens": len(turn.new_tokens),
            "output_tokens": turn.output_tokens,
            "tool_us": round(turn.tool_s * 1e6),
        }
        for index, turn in enumerate(program.turns)
    ]


if __name__ == "__main__":
    print(json.dumps(stated()))  # noqa: T201
