"""What becomes of a preempted call's KV: pure choices, without vLLM.

`gpu-agent/engine/memory/handling` has the same ones, and golden traces hold these to those.
"""
