"""What the plug-in's own code costs a step:
`PYTHONPATH=src:tests python -m scheduler.costs [--policy plas] [--live 256] [--scarce] [--profile]`.

vLLM's scheduler class without a model, with 64 seats and 256 live calls: each that ends is followed by another. Time is the
thread's own, so that a loaded machine changes less. The median step leaves out the status, which comes once a second. The
garbage collector takes what is there before for permanent, as in vLLM's engine core.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import pstats
import random
import time
from statistics import median
from typing import Any

from switchyard_vllm import ProgramAwareScheduler

from .harness import Engine
from .loads import ticket

SEATS, STEPS, WARM_UP_STEPS = 64, 300, 60
HOOKS = ("added", "before_schedule", "after_schedule", "before_update", "after_update", "freed")


class Costs:
    def __init__(self, policy: str, live: int, scarce: bool) -> None:
        self.live = live
        self.prompt_tokens = (300, 1500) if scarce else (20, 120)
        quantum = {} if policy == "fcfs" else {"quantum_s": 0.01}
        self.engine = Engine(
            ProgramAwareScheduler,
            seats=SEATS,
            blocks=1_280 if scarce else 20_000,
            switchyard={"policy": policy, **quantum},
        )
        self.engine.is_ours = False
        # Steps of some 20 ms: the status comes once a second.
        self.engine.scheduler.switchyard_meter.clock_us = lambda: self.engine.clock.now_us // 10
        self.draw = random.Random(5)
        self.calls = 0
        self.spent_ns = dict.fromkeys((*HOOKS, "step"), 0)
        #: Of each step, ours.
        self.ours_ns: list[int] = []

    def fill(self) -> None:
        """A twelfth of the calls is forty times as long as the others; their programs have received as much."""
        while len(self.engine.scheduler.requests) < self.live:
            self.calls += 1
            long = self.calls % 12 == 0
            program = ticket(f"p{self.calls // 4}", service_us=self.draw.randrange(1_000_000 if long else 60_000))
            prompt = [self.calls, *(self.draw.randrange(900) for _ in range(self.draw.randint(*self.prompt_tokens)))]
            output = self.draw.randint(300, 500) if long else self.draw.randint(8, 40)
            self.engine.add(f"c{self.calls}", prompt=prompt, output=output, xargs=program)

    def watch(self) -> None:
        ours = self.engine.scheduler.switchyard
        for name in HOOKS:
            setattr(ours, name, self._timed(name, getattr(ours, name)))

    def _timed(self, name: str, hook: Any) -> Any:
        def timed(*given: Any) -> Any:
            begun_ns = time.thread_time_ns()
            result = hook(*given)
            self.spent_ns[name] += time.thread_time_ns() - begun_ns
            return result

        return timed

    def run(self, steps: int) -> None:
        for _ in range(steps):
            before_ns = sum(self.spent_ns[name] for name in HOOKS)
            self.fill()
            begun_ns = time.thread_time_ns()
            self.engine.step()
            self.spent_ns["step"] += time.thread_time_ns() - begun_ns
            self.ours_ns.append(sum(self.spent_ns[name] for name in HOOKS) - before_ns)


def main() -> None:
    flags = argparse.ArgumentParser()
    flags.add_argument("--policy", default="plas")
    flags.add_argument("--live", type=int, default=256, help="calls at once; 64 of them have seats")
    flags.add_argument("--scarce", action="store_true", help="KV for a third of the calls with seats")
    flags.add_argument("--profile", action="store_true")
    given = flags.parse_args()
    costs = Costs(given.policy, given.live, given.scarce)
    costs.run(WARM_UP_STEPS)
    if given.profile:
        profile = cProfile.Profile()
        profile.runcall(costs.run, STEPS)
        pstats.Stats(profile).sort_stats("tottime").print_stats("switchyard_vllm", 40)
        return
    costs.watch()
    gc.collect()
    gc.freeze()
    costs.spent_ns = dict.fromkeys(costs.spent_ns, 0)
    costs.ours_ns.clear()
    costs.run(STEPS)
    each = {name: round(spent_ns / STEPS / 1000, 1) for name, spent_ns in costs.spent_ns.items()}
    ours_us = round(sum(each[name] for name in HOOKS), 1)
    scheduler = costs.engine.scheduler
    assert scheduler.switchyard_failures == 0
    preemptions = scheduler.switchyard.preemption.for_seats
    figures = {
        "policy": given.policy,
        "waiting": len(scheduler.waiting),
        "us_a_step": each,
        "ours_us": ours_us,
        "ours_median_us": round(median(costs.ours_ns) / 1000, 1),
        "preemptions": preemptions,
    }
    print(json.dumps(figures))  # noqa: T201


if __name__ == "__main__":
    main()
