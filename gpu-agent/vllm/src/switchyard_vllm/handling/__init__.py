"""What becomes of KV that no running call needs: of preempted calls, and of programs whose tools run.

Pure choices, without vLLM.
`gpu-agent/engine/memory` has the same ones, and golden traces hold these to those.
"""
