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
from .tools import BLOCKS, OTHERS, PROGRAMS, TOOLS_OF_A_PROGRAM

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


@pytest.mark.parametrize("prefix_cache", ["on", "off"])
@pytest.mark.parametrize("handling", ["preserve", "swap"])
def test_what_is_kept_is_at_hand_on_return(handling: str, prefix_cache: str) -> None:
    tools = plays(prefix_cache)[handling]["tools"]
    assert (tools["decided"], tools["returned"]) == (ON_RETURN, ON_RETURN)
    assert tools["cached_tokens"] >= 0.95 * tools["context_tokens"] > 0
    assert (tools["swapped_in"] > 0) == (handling == "swap")
    assert tools["relieved"] == 0


@pytest.mark.parametrize("prefix_cache", ["on", "off"])
def test_nothing_of_a_discarded_context_is(prefix_cache: str) -> None:
    tools = plays(prefix_cache)["discard"]["tools"]
    assert (tools["decided"], tools["returned"]) == (ON_RETURN, ON_RETURN)
    assert (tools["cached_tokens"], tools["swapped_in"]) == (0, 0)


@pytest.mark.parametrize("prefix_cache", ["on", "off"])
def test_answers_are_the_same_however_contexts_are_handled(prefix_cache: str) -> None:
    played = plays(prefix_cache)
    assert len(played["discard"]["tokens"]) == OTHERS + PROGRAMS + ON_RETURN
    for handling in ("preserve", "swap"):
        assert played[handling]["tokens"] == played["discard"]["tokens"]


@pytest.mark.parametrize("prefix_cache", ["on", "off"])
def test_nothing_is_left_behind(prefix_cache: str) -> None:
    played = plays(prefix_cache)
    for handling in ("preserve", "swap", "discard"):
        assert played[handling]["free_blocks"] == BLOCKS - 1
        assert (played[handling]["images"], played[handling]["used_slabs"]) == ([0, 0], [0, 0])


@pytest.mark.parametrize("prefix_cache", ["on", "off"])
def test_a_process_that_is_killed_with_contexts_pinned_leaves_nothing(prefix_cache: str) -> None:
    played = plays(prefix_cache)
    assert played["holding"]["pinned_blocks"] > 0
    assert played["left"]["shared"] == []
