"""Checks vLLM with Switchyard's scheduler and KV swap on this machine's GPU and prints one report to send back.

    python -m gpu_check [--json FILE] [--parts exact,programs] [--quick]

exact      the same calls in float32, undisturbed and with preempted calls swapped or computed again: the tokens must be equal
programs   chats, agents and long writers on a model of Llama-3-8B's shape (random weights) with scarce KV: vLLM's own
           first come, first served, then plas, which computes preempted calls again, then plas with the swap. The swap's
           device memory is taken from the KV, so all have the same in total.

Run it with src/ and tools/ of gpu-agent/vllm on PYTHONPATH. It takes about ten minutes, and needs no model and no network.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from .machine import machine, what_is_missing

FORMAT = 1
#: The 330 programs last two minutes on an H100, and nine where memory is a fifth as fast.
PLAY_TIMEOUT_S = 1200
#: Of the 8B shape in bfloat16.
BYTES_PER_TOKEN = 2 * 32 * 8 * 128 * 2
BLOCK_TOKENS = 32
KV_GIB = 5.0
RING_GIB = 0.25
GIB = 2**30


def blocks_of(gib: float) -> int:
    return int(gib * GIB) // (BYTES_PER_TOKEN * BLOCK_TOKENS)


#: Prompts of up to 1,300 tokens and float32: a backend that has it.
EXACT: dict[str, Any] = {
    "shape": "small",
    "programs": {"seed": 5, "programs": 40, "per_s": 40.0, "tool_s": 0.02, "scale": 0.15},
    "engine": {"attention_backend": "TRITON_ATTN", "enforce_eager": True, "max_model_len": 2048},
}
SWAPPED = {"arena_gib": 2.0, "ring_gib": 0.25, "prefetch_gib": 0.25, "mode": "always", "checksums": True}
EXACT_PLAYS: dict[str, dict[str, Any]] = {
    "undisturbed": {"policy": "fcfs", "seats": 64, "blocks": 4000},
    "swapped": {"policy": "plas", "seats": 6, "blocks": 80, "swap": SWAPPED},
    "computed again": {"policy": "plas", "seats": 6, "blocks": 80},
}

GRAPHS = {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY"}
PROGRAMS: dict[str, Any] = {
    "shape": "8b",
    "programs": {"seed": 11, "programs": 330, "per_s": 9.0},
    "engine": {"compilation_config": GRAPHS},
    "seats": 48,
}
PROGRAM_PLAYS: dict[str, dict[str, Any]] = {
    "vLLM": {"policy": None, "blocks": blocks_of(KV_GIB)},
    "plas, computing again": {"policy": "plas", "blocks": blocks_of(KV_GIB)},
    "plas with KV swap": {
        "policy": "plas",
        "blocks": blocks_of(KV_GIB - 2 * RING_GIB),
        "swap": {"arena_gib": 32.0, "ring_gib": RING_GIB, "prefetch_gib": RING_GIB},
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="writes all figures there")
    parser.add_argument("--parts", default="exact,programs")
    parser.add_argument("--quick", action="store_true", help="fewer programs")
    parser.add_argument("--any-machine", action="store_true", help="also without a GPU: only shows that it runs")
    given = parser.parse_args()
    parts = given.parts.split(",")
    for part in parts:
        if part not in PARTS:
            parser.error(f"there is no part {part!r}, only {', '.join(PARTS)}")
    missing = what_is_missing(parts)
    if missing is not None and not given.any_machine:
        sys.exit(missing)
    figures: dict[str, Any] = {"format": FORMAT, "machine": machine()}
    say(json.dumps(figures["machine"]))
    failed = False
    for part in parts:
        figures[part] = PARTS[part](given.quick)
        failed = failed or figures[part].get("ok") is False
        if given.json is not None:
            given.json.write_text(json.dumps(figures, indent=1) + "\n")
    sys.exit(1 if failed else 0)


def exact(_quick: bool) -> dict[str, Any]:
    told = {name: run({**EXACT, **play}, name) for name, play in EXACT_PLAYS.items()}
    expected = (told["undisturbed"] or {}).get("tokens")
    rows: dict[str, Any] = {}
    for name, play in told.items():
        if play is None or expected is None:
            rows[name] = {"equal": False, "calls": 0, **counts(play)}
            continue
        calls = [
            (one, two)
            for program in expected
            for one, two in zip(expected[program], play["tokens"][program], strict=True)
        ]
        rows[name] = {"calls": len(calls), "equal_calls": sum(one == two for one, two in calls), **counts(play)}
        say(f"{name:>24}: {json.dumps(rows[name])}")
    swapped = rows["swapped"]
    ok = all(row["calls"] > 0 and row.get("equal_calls") == row["calls"] for row in rows.values())
    ok = ok and swapped["swapped_in_tokens"] > 0
    say(f"exact: {'every call has the same tokens' if ok else 'FAILED'}")
    return {"ok": ok, "plays": rows}


def programs(quick: bool) -> dict[str, Any]:
    setting = {**PROGRAMS, "programs": {**PROGRAMS["programs"], **({"programs": 60} if quick else {})}}
    rows: dict[str, Any] = {}
    for name, play in PROGRAM_PLAYS.items():
        told = run({**setting, **play}, name)
        if told is None:
            rows[name] = None
            continue
        rows[name] = {"setting": {**setting, **play}, "ready_s": told["ready_s"], **latencies(told), **counts(told)}
        say(f"{name:>24}: {json.dumps({key: value for key, value in rows[name].items() if key != 'setting'})}")
    return {"ok": all(row is not None for row in rows.values()), "plays": rows}


PARTS = {"exact": exact, "programs": programs}


def latencies(told: dict[str, Any]) -> dict[str, Any]:
    def mean(values: list[float]) -> float:
        return round(sum(values) / max(1, len(values)), 2)

    by_kind: dict[str, list[float]] = {}
    for program in told["programs"]:
        by_kind.setdefault(program["name"].split("-")[0], []).append(program["token_latency_ms"])
    every = sorted(value for values in by_kind.values() for value in values)
    return {
        "programs": len(every),
        "token_latency_ms": {"mean": mean(every), "p50": every[len(every) // 2], "p95": every[int(len(every) * 0.95)]},
        "by_kind_ms": {kind: mean(values) for kind, values in sorted(by_kind.items())},
        "makespan_s": told["makespan_s"],
    }


def counts(told: dict[str, Any] | None) -> dict[str, Any]:
    records = [] if told is None else told["records"]
    names = ("preemptions", "swapped_out_tokens", "swapped_in_tokens", "recomputed_tokens", "swap_us", "cached_tokens")
    status = {} if told is None else told["status"]
    own = {name: status.get(name) for name in ("steps", "decisions", "decision_us", "failed", "failures", "swap_costs")}
    return {**{name: sum(record.get(name) or 0 for record in records) for name in names}, **own}


def run(given: dict[str, Any], name: str) -> dict[str, Any] | None:
    """None: it failed, and its error was printed."""
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, "-m", "gpu_check.engine", json.dumps(given), str(answer)]
        log = Path(folder) / "log"
        with log.open("w") as out:
            try:
                subprocess.run(
                    command,
                    check=False,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    timeout=PLAY_TIMEOUT_S,
                    env=os.environ.copy(),
                )
            except subprocess.TimeoutExpired:
                say(f"{name}: no end after {PLAY_TIMEOUT_S} s")
        if not answer.exists():
            say(f"{name} failed:\n" + reason_in(log.read_text()))
            return None
        say(f"{name}: {time.monotonic() - begun_s:.0f} s with its start")
        told: dict[str, Any] = json.loads(answer.read_text())
        return told


def reason_in(log: str) -> str:
    """What vLLM says failed first, and the end."""
    lines = log.splitlines()
    first = next((index for index, line in enumerate(lines) if "ERROR" in line or "Traceback" in line), 0)
    errors = [line for line in lines[first:] if "Error" in line]
    return "\n".join([*errors[:12], "…", *lines[-12:]])


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
