"""`npm run gpu-check`: whether vLLM with the plug-in works on this GPU, and what scheduler and KV swap are worth here."""
