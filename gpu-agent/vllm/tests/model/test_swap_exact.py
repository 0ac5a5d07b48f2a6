"""Greedy output of a real model in float32 is the same whether calls are left alone, swapped or computed again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from .storms import BLOCKS, CALLS

#: A folder with safetensors (lab/vllm-tests.ts makes one).
MODEL = "SWITCHYARD_VLLM_MODEL"
TIMEOUT_S = 3600
ROOT = Path(__file__).parents[2]


@cache
def plays(prefix_cache: str) -> dict[str, dict[str, Any]]:
    """A process of its own for each: vLLM starts once in one."""
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("src", "tests"))
    command = [sys.executable, "-m", "model.storms", os.environ[MODEL], prefix_cache]
    env = {**os.environ, "PYTHONPATH": paths}
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert run.returncode == 0, run.stderr[-4000:]
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith('{"play"')]
    return {line["play"]: line for line in lines}


def total(play: dict[str, Any], name: str) -> int:
    return sum(record[name] for record in play["records"])


@pytest.mark.parametrize("prefix_cache", ["on", "off"])
@pytest.mark.parametrize("play", ["always", "auto", "recompute"])
def test_preempted_calls_give_the_tokens_of_an_undisturbed_run(play: str, prefix_cache: str) -> None:
    undisturbed, disturbed = plays(prefix_cache)["undisturbed"], plays(prefix_cache)[play]
    assert len(undisturbed["tokens"]) == CALLS
    assert total(undisturbed, "preemptions") == 0
    assert total(disturbed, "preemptions") >= CALLS
    assert disturbed["tokens"] == undisturbed["tokens"]


@pytest.mark.parametrize("prefix_cache", ["on", "off"])
def test_records_say_which_way_kv_came_back(prefix_cache: str) -> None:
    played = plays(prefix_cache)
    for play in ("always", "auto"):
        assert total(played[play], "swapped_in_tokens") > 0
        assert total(played[play], "swapped_out_tokens") >= total(played[play], "swapped_in_tokens")
        assert total(played[play], "swap_us") > 0
    assert total(played["recompute"], "swapped_in_tokens") == 0
    assert total(played["recompute"], "recomputed_tokens") > total(played["auto"], "recomputed_tokens")


@pytest.mark.parametrize("prefix_cache", ["on", "off"])
@pytest.mark.parametrize("play", ["undisturbed", "always", "auto", "recompute"])
def test_kv_blocks_and_arena_return_to_zero(play: str, prefix_cache: str) -> None:
    played = plays(prefix_cache)[play]
    assert played["free_blocks"] == BLOCKS - 1
    assert (played["images"], played["used_slabs"]) == ([0, 0], [0, 0])
