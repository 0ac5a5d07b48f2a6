"""How fast KV leaves and returns: `python -m bench_swap`, with src/ and tools/ on the path. Needs torch; Triton on a GPU."""
