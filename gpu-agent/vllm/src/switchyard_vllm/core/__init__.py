"""The policy core: which program's calls sit in the next engine step. Imports nothing of vLLM and reads no clock.

It is the Python home of the decisions that `gpu-agent/engine` takes in TypeScript (seating, policies, tenants' shares,
seat hold, accounting), and is held to them by golden traces (`gpu-agent/vllm/golden`). All times are integer microseconds
of one monotonic clock; every method that needs the time takes it.
"""
