"""Checks vLLM with Switchyard's scheduler and KV swap on this machine's GPU and prints one report to send back.

    python -m gpu_check [--json FILE] [--parts exact,programs,tools] [--engines vLLM,swap,plug-in] [--quick]

exact      the same calls in float32, undisturbed and with preempted calls swapped or computed again, and with contexts swapped
           or pinned while tools run: the tokens must be equal
programs   chats, agents and long writers on a model of Llama-3-8B's shape (random weights) with scarce KV: vLLM's own first
           come, first served, then plas with and without the KV swap, learned, fcfs-program, atlas
tools      agents whose tools really take seconds, with the same model and memory: as above, and the policies that decide what
           becomes of a context while its tool runs: vllm-preserve, vllm-discard, infercept, lamps, learned-memory

One vLLM without the plug-in, one with it and one with the KV swap beside it play both; the latter two take another policy at
run time. The swap's device memory is taken from the KV, so all have the same in total.

Run it with src/ and tools/ of gpu-agent/vllm on PYTHONPATH. It takes about a quarter of an hour, needs no model and no network.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .machine import machine, what_is_missing
from .plays import EXACT_ENGINES, LOADED, LOADED_ENGINES, LOADED_PROGRAMS, STOCK, exact_run, loaded_run
from .report import counts, equal_calls, latencies, ratios

FORMAT = 2
#: For one engine with all its plays. A play lasts a minute on an H100, and five where memory is a fifth as fast.
ENGINE_TIMEOUT_S = 3600
POLL_S = 0.5
PARTS = ("exact", "programs", "tools")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="writes all figures there, after each play")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--engines", default=",".join(LOADED_ENGINES), help="which vLLMs play programs and tools")
    parser.add_argument(
        "--classes", type=Path, help="tables of classes for the policies that learn, as an agent tells them"
    )
    parser.add_argument("--logs", type=Path, help="a folder for vLLM's logs")
    parser.add_argument("--quick", action="store_true", help="fewer programs")
    parser.add_argument("--any-machine", action="store_true", help="also without a GPU: only shows that it runs")
    given = parser.parse_args()
    parts, engines = given.parts.split(","), given.engines.split(",")
    for name, known in [*((part, PARTS) for part in parts), *((engine, tuple(LOADED_ENGINES)) for engine in engines)]:
        if name not in known:
            parser.error(f"there is no {name!r}, only {', '.join(known)}")
    # So that no vLLM is left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    missing = what_is_missing(parts)
    if missing is not None and not given.any_machine:
        sys.exit(missing)
    figures: dict[str, Any] = {"format": FORMAT, "machine": machine()}
    say(json.dumps(figures["machine"]))

    def write() -> None:
        if given.json is not None:
            given.json.write_text(json.dumps(figures, indent=1) + "\n")

    runner = Runner(given.logs)
    ok = exact(runner, figures, write) if "exact" in parts else True
    loaded_parts = [part for part in parts if part in LOADED_PROGRAMS]
    classes = [] if given.classes is None else json.loads(given.classes.read_text())
    for engine in engines if loaded_parts else []:
        given_run = loaded_run(engine, loaded_parts, given.quick, classes)
        ok = loaded(runner, figures, write, given_run, engine) and ok
    sys.exit(0 if ok else 1)


def exact(runner: Runner, figures: dict[str, Any], write: Callable[[], None]) -> bool:
    rows: dict[str, Any] = {}
    figures["exact"] = {"ok": False, "plays": rows}
    expected: dict[str, list[list[int]]] | None = None
    whole = True
    for engine in EXACT_ENGINES:
        given = exact_run(engine)
        told = runner.run(given, engine, lambda _: None)
        whole = whole and len(told) == len(given["plays"])
        for play, answer in zip(given["plays"], told, strict=False):
            expected = answer["tokens"] if expected is None else expected
            rows[play["name"]] = {**equal_calls(expected, answer["tokens"]), **counts(answer)}
            say(f"{play['name']:>28}: {json.dumps(rows[play['name']])}")
        write()
    swapped = sum(row["swapped_in_tokens"] for row in rows.values())
    equal = all(row["calls"] > 0 and row["equal_calls"] == row["calls"] for row in rows.values())
    ok = whole and equal and swapped > 0 and not any(row["failures"] for row in rows.values())
    figures["exact"]["ok"] = ok
    write()
    say(f"exact: {'every call has the same tokens' if ok else 'FAILED'}")
    return ok


def loaded(
    runner: Runner, figures: dict[str, Any], write: Callable[[], None], given: dict[str, Any], engine: str
) -> bool:
    """Plays all that one vLLM has to play, and writes after each."""
    plays = given["plays"]
    for part in {play["part"] for play in plays}:
        figures.setdefault(part, {"setting": {**LOADED, "programs": LOADED_PROGRAMS[part]}, "plays": {}})

    def take(answer: list[dict[str, Any]]) -> None:
        play, told = plays[len(answer) - 1], answer[-1]
        rows = figures[play["part"]]["plays"]
        setting = {**{name: value for name, value in given.items() if name != "plays"}, "programs": play["programs"]}
        row = {"setting": setting, "ready_s": told["ready_s"], **latencies(told), **counts(told)}
        if STOCK in rows:
            row["ratio_to_vllm"] = ratios(row, rows[STOCK])
        rows[play["name"]] = row
        write()
        short = {name: value for name, value in row.items() if name not in ("setting", "swap_costs")}
        say(f"{play['part']}, {play['name']:>28}: {json.dumps(short)}")

    told = runner.run(given, engine, take)
    failures = sum(answer["status"].get("failures", 0) for answer in told)
    return len(told) == len(plays) and failures == 0


class Runner:
    def __init__(self, logs: Path | None) -> None:
        #: Where vLLM's logs stay. None: they do not.
        self._logs = logs
        self._runs = 0

    def run(
        self, given: dict[str, Any], name: str, take: Callable[[list[dict[str, Any]]], None]
    ) -> list[dict[str, Any]]:
        """The plays of one vLLM that came to an end; the error of one that did not is printed. `take`: after each."""
        begun_s = time.monotonic()
        self._runs += 1
        told: list[dict[str, Any]] = []
        with tempfile.TemporaryDirectory() as name_of_folder:
            folder = Path(name_of_folder)
            asked, answer = folder / "given.json", folder / "answer.json"
            log = (folder if self._logs is None else self._logs) / f"vllm-{self._runs}.log"
            asked.write_text(json.dumps(given))
            command = [sys.executable, "-m", "gpu_check.engine", str(asked), str(answer)]
            with log.open("w") as out:
                process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                ended = False
                while not ended:
                    ended = process.poll() is not None
                    told = taken(answer, told, take)
                    if time.monotonic() - begun_s > ENGINE_TIMEOUT_S:
                        say(f"{name}: no end after {ENGINE_TIMEOUT_S} s")
                        break
                    if not ended:
                        time.sleep(POLL_S)
            finally:
                # vLLM's engine is a process of its own.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if len(told) < len(given["plays"]):
                say(f"{name} failed:\n" + reason_in(log.read_text()))
        say(f"{name}: {time.monotonic() - begun_s:.0f} s with its start")
        return told


def taken(
    answer: Path, told: list[dict[str, Any]], take: Callable[[list[dict[str, Any]]], None]
) -> list[dict[str, Any]]:
    """What the engine's process has written by now."""
    if not answer.exists():
        return told
    written: list[dict[str, Any]] = json.loads(answer.read_text())
    for plays in range(len(told) + 1, len(written) + 1):
        take(written[:plays])
    return written


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
