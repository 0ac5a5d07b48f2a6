#!/usr/bin/env node
/** `gpu-agent …`: the daemon of a GPU host; `--help` lists its flags. */
await import('./gpu-agent/src/main.js')
