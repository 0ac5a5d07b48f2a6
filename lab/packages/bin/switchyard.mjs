#!/usr/bin/env node
/** `switchyard COMMAND …`: the system on this machine (up, down, status, reset, demo), and every command of the APIs. */
await import('./ops/switchyard/main.js')
