"""Without a GPU, Triton's kernels run in its interpreter. It reads the variable when the kernels are defined."""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
