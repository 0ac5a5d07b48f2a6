"""Workloads for the scheduler's tests: the same list for the same seed."""

from __future__ import annotations

import random
from typing import Any

from .harness import Arrival


def mixed(seed: int, programs: int = 14) -> list[Arrival]:
    """Short programs among long ones, with tickets: what a program has attained grows with its calls."""
    draw = random.Random(seed)
    arrivals: list[Arrival] = []
    for program in range(programs):
        long = program % 3 == 0
        at_us = draw.randrange(2_000_000)
        service_us = 0
        for call in range(draw.randint(1, 3)):
            output = draw.randint(30, 60) if long else draw.randint(2, 8)
            prompt = draw.randint(20, 260)
            given: dict[str, Any] = {
                "prompt": [seed, program, *(draw.randrange(900) for _ in range(prompt))],
                "output": output,
                "xargs": ticket(f"p{program}", service_us=service_us),
            }
            arrivals.append((at_us, f"p{program}-c{call}", given))
            service_us += 500 * output + 125 * prompt
            at_us += draw.randrange(400_000, 1_600_000)
    return sorted(arrivals, key=lambda arrival: arrival[:2])


def short_and_long(seed: int) -> list[Arrival]:
    """At some 1.5 times what four seats serve: 48 programs of one short call among 8 of one that is forty times as long."""
    draw = random.Random(seed)
    arrivals: list[Arrival] = []
    for program in range(56):
        output = draw.randint(200, 300) if program % 7 == 0 else draw.randint(3, 9)
        prompt = [seed, program, *(draw.randrange(900) for _ in range(10))]
        given = {"prompt": prompt, "output": output, "xargs": ticket(f"p{program}")}
        arrivals.append((draw.randrange(8_000_000), f"p{program}", given))
    return arrivals


def ticket(program: str, *, tenant: str = "t", weight: float = 1, service_us: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "switchyard_tenant": tenant,
        "switchyard_weight": weight,
        "switchyard_program": f"{tenant}/{program}",
        "switchyard_service_us": service_us,
        "switchyard_path_us": more.get("path_us", service_us),
        "switchyard_wait_us": more.get("wait_us", 0),
    }
