"""`python -m bench_swap` without a GPU: it runs, says that its figures mean nothing, and notices what comes back changed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[2]
CASE_KEYS = {
    *(
        "shape",
        "layout",
        "block_tokens",
        "tokens",
        "calls",
        "bytes",
        "pieces_per_block",
        "direction",
        "method",
        "ring_bytes",
    ),
    *("compute_stream_ms", "done_ms", "gb_per_s", "link_share", "decode_slowdown", "exact"),
}


def bench(*flags: str, program: str = "import runpy; runpy.run_module('bench_swap', run_name='__main__')") -> Any:
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((f"{ROOT}/src", f"{ROOT}/tools")),
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run([sys.executable, "-c", program, *flags], env=env, capture_output=True, text=True, check=False)


def test_it_runs_on_a_cpu_and_says_that_its_figures_mean_nothing(tmp_path: Path) -> None:
    file = tmp_path / "swap.json"
    run = bench("--methods", "staged-torch,copy-per-block-and-layer,batch-copy", "--tokens", "256", "--json", f"{file}")
    assert run.returncode == 0, run.stderr
    report = json.loads(file.read_text())
    assert report["meaningful"] is False
    assert report["device"]["torch"] == torch.__version__
    assert {(case["method"], case["direction"]) for case in report["cases"]} == {
        (method, direction) for method in ("staged-torch", "copy-per-block-and-layer") for direction in ("out", "in")
    }
    assert "batch-copy" in report["left_out"]
    assert all(set(case) == CASE_KEYS and case["exact"] for case in report["cases"])


def test_it_fails_if_a_method_brings_back_other_bytes() -> None:
    broken = """
import runpy, sys
from switchyard_vllm.swap.torch_backend import TorchBackend
import bench_swap.methods as methods
def scatter(self, image, block_ids):
    image[-1, 5] ^= 1
    TorchBackend.scatter(self, image, block_ids)
Broken = type('Broken', (TorchBackend,), {'scatter': scatter})
methods.copy_backend = lambda name, layers: Broken(layers)
runpy.run_module('bench_swap', run_name='__main__', alter_sys=True)
"""
    run = bench("--methods", "staged-torch", "--tokens", "256", program=broken)
    assert run.returncode == 1
    assert "WRONG" in run.stdout


def test_unknown_methods_are_refused() -> None:
    run = bench("--methods", "teleport")
    assert run.returncode == 2
    assert "unknown: teleport" in run.stderr
