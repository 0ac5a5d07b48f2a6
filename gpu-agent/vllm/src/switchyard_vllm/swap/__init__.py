"""Moves the KV cache of preempted calls to host memory and back, in one transfer per call.

transfers.SwapTransfers    what a worker calls: out, prefetch, in, drop, what has completed
kv_layers.KvLayers         where one block of one layer lies, for every KV layout
copy_backend.CopyBackend   blocks <-> contiguous image on the device: torch, triton, vllm
staging_ring.StagingRing   bounded device memory that images pass through
host_arena.HostArena       bounded (pinned) host memory that holds images
slab_pool.SlabPool         which slabs of the arena are in use: no torch, so that the scheduler can count with it too
streams                    the order of work on the device

An *image* is the KV of some blocks, in the order in which their ids were given: one row per block, all layers in the row.
"""
