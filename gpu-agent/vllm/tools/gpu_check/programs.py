"""Programs to play: the same for the same seed, as token ids, so that prefixes are shared exactly."""

from __future__ import annotations

import random
from dataclasses import dataclass

VOCABULARY = 30_000


@dataclass(frozen=True)
class Turn:
    """One call: what its prompt has more than the last call and its answer, and how many tokens are generated."""

    new_tokens: tuple[int, ...]
    output_tokens: int
    #: How long a tool runs before it.
    tool_s: float


@dataclass(frozen=True)
class Program:
    name: str
    at_s: float
    turns: tuple[Turn, ...]

    @property
    def output_tokens(self) -> int:
        return sum(turn.output_tokens for turn in self.turns)


#: Kind: share of programs, calls, tokens of the first prompt, of each later one, output tokens of a call.
_KINDS: dict[str, tuple[float, tuple[int, int], tuple[int, int], tuple[int, int], tuple[int, int]]] = {
    "chat": (0.7, (1, 3), (300, 900), (40, 160), (30, 120)),
    "agent": (0.2, (4, 7), (1200, 2400), (150, 500), (40, 160)),
    "long": (0.1, (1, 2), (3000, 6000), (200, 600), (600, 1100)),
}


def mixed(seed: int, programs: int, per_s: float, tool_s: float = 0.3, scale: float = 1.0) -> list[Program]:
    """Short chats, agents with tools and long writers, as a Poisson process. `scale` shrinks all lengths."""
    draw = random.Random(seed)
    system = tokens_of(draw, scaled(200, scale))
    at_s, played = 0.0, []
    for index in range(programs):
        at_s += draw.expovariate(per_s)
        kind = draw.choices(list(_KINDS), [one[0] for one in _KINDS.values()])[0]
        _, calls, first, later, output = _KINDS[kind]
        turns = []
        for call in range(draw.randint(*calls)):
            new = tokens_of(draw, scaled(draw.randint(*(later if call else first)), scale))
            turns.append(
                Turn(
                    new_tokens=new if call else (*system, *new),
                    output_tokens=scaled(draw.randint(*output), scale),
                    tool_s=draw.expovariate(1 / tool_s) if call else 0.0,
                )
            )
        played.append(Program(f"{kind}-{index}", at_s, tuple(turns)))
    return played


def tokens_of(draw: random.Random, count: int) -> tuple[int, ...]:
    return tuple(draw.randrange(10, VOCABULARY) for _ in range(count))


def scaled(count: int, scale: float) -> int:
    return max(2, round(count * scale))
