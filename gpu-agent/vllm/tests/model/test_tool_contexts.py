"""What becomes of contexts while tools really run, with a real model in float32: at hand on return or not, and always right."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import deque
from functools import cache
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from .test_swap_exact import MODEL, ROOT, TIMEOUT_S
from .tools import BLOCKS, LEAST_WASTE, OTHERS, PLAYS, PROGRAMS, TOOLS_OF_A_PROGRAM

PREFIX_CACHE = pytest.mark.parametrize("prefix_cache", ["on", "off"])
SHARED_MEMORY = "/dev/shm/"
ON_RETURN = PROGRAMS * TOOLS_OF_A_PROGRAM


@cache
def plays(prefix_cache: str) -> dict[str, dict[str, Any]]:
    """Of a process that is killed while it has contexts pinned."""
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("src", "tests"))
    command = [sys.executable, "-m", "model.tools", os.environ[MODEL], prefix_cache]
    env = {**os.environ, "PYTHONPATH": paths}
    lines: dict[str, dict[str, Any]] = {}
    said: deque[str] = deque(maxlen=40)
    shared: set[str] = set()
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        assert run.stdout is not None
        limit = Timer(TIMEOUT_S, run.kill)
        limit.start()
        for line in run.stdout:
            said.append(line)
            if line.startswith('{"play"'):
                told = json.loads(line)
                lines[told["play"]] = told
            if "holding" in lines:
                shared = shared_memory_of(run.pid)
                os.kill(run.pid, signal.SIGKILL)
        limit.cancel()
    assert "holding" in lines, "".join(said)
    assert run.returncode == -signal.SIGKILL
    lines["left"] = {"shared": sorted(path for path in shared if Path(path).exists())}
    return lines


def shared_memory_of(pid: int) -> set[str]:
    """Files of shared memory that a process has mapped and that have names."""
    maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
    paths = {line.split(maxsplit=5)[-1] for line in maps}
    return {path for path in paths if path.startswith(SHARED_MEMORY) and not path.endswith("(deleted)")}


def handled(play: str) -> str:
    return PLAYS[play][1][0]


def at_hand(tools: dict[str, int], handling: str) -> float:
    """Of the contexts of programs that came back."""
    return tools[f"{handling}_cached_tokens"] / tools[f"{handling}_context_tokens"]


@PREFIX_CACHE
@pytest.mark.parametrize("play", [play for play in PLAYS if handled(play) != "discard"])
def test_what_is_kept_is_at_hand_on_return_under_any_order(play: str, prefix_cache: str) -> None:
    tools = plays(prefix_cache)[play]["tools"]
    handling = handled(play)
    assert (tools[f"{handling}_decided"], tools[f"{handling}_returned"]) == (ON_RETURN, ON_RETURN)
    assert at_hand(tools, handling) >= 0.95
    assert tools["relieved"] == 0
    if play == handling:
        # In another order the others may have run before, and taken no block.
        assert (tools["swapped_in"] > 0) == (handling == "swap")


@PREFIX_CACHE
def test_nothing_of_a_discarded_context_is(prefix_cache: str) -> None:
    tools = plays(prefix_cache)["discard"]["tools"]
    assert (tools["discard_decided"], tools["discard_returned"]) == (ON_RETURN, ON_RETURN)
    assert (tools["discard_cached_tokens"], tools["swapped_in"]) == (0, 0)


@PREFIX_CACHE
def test_one_policy_decides_for_each_handling_by_its_waste(prefix_cache: str) -> None:
    played = plays(prefix_cache)[LEAST_WASTE]
    decided = {lease.removeprefix(f"{LEAST_WASTE}-"): one for lease, one in played["handled"].items()}
    assert {name: one["handling"] for name, one in decided.items()} == {
        "at-once-1": "preserve",
        "lasts-1": "swap",
        "small-1": "discard",
    }
    for one in decided.values():
        assert one["reason"] == "least_waste"
        assert one["waste"][one["handling"]] == min(one["waste"].values())
    tools = played["tools"]
    assert [tools[f"{name}_decided"] for name in ("preserve", "swap", "discard")] == [1, 1, 1]
    assert at_hand(tools, "swap") >= 0.95
    assert tools["discard_cached_tokens"] == 0


@PREFIX_CACHE
def test_answers_are_the_same_however_contexts_are_handled(prefix_cache: str) -> None:
    played = plays(prefix_cache)
    assert len(played["discard"]["tokens"]) == OTHERS + PROGRAMS + ON_RETURN
    for play in PLAYS:
        assert played[play]["tokens"] == played["discard"]["tokens"], play


@PREFIX_CACHE
def test_nothing_is_left_behind(prefix_cache: str) -> None:
    played = plays(prefix_cache)
    for play in (*PLAYS, LEAST_WASTE):
        assert played[play]["free_blocks"] == BLOCKS - 1, play
        assert (played[play]["images"], played[play]["used_slabs"]) == ([0, 0], [0, 0]), play


@PREFIX_CACHE
def test_a_process_that_is_killed_with_contexts_pinned_leaves_nothing(prefix_cache: str) -> None:
    played = plays(prefix_cache)
    assert played["holding"]["pinned_blocks"] > 0
    assert played["left"]["shared"] == []
