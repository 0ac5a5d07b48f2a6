/**
 * What the next agent must know to find a vLLM that outlived this one: the process, where it listens, its key, and what it
 * was started with. 0600, written by renaming, so that it is whole or not there. It holds the key of a server that only
 * this host's loopback reaches, and ends with it.
 */
import { chmodSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'

const VllmState = z.object({
  v: z.literal(1),
  pid: z.int().min(2),
  /** process-group.ts */
  started: z.string().min(1),
  port: z.int().min(1).max(65_535),
  socket: z.string().min(1),
  api_key: z.string().min(1),
  /** Of everything that cannot be changed while it runs (vllm-launch.ts). */
  fingerprint: z.string().min(1),
  /** What our scheduler was started with, or told since. */
  scheduler: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.array(z.string()).readonly()])),
  /** Files of it that its processes have mapped, as far as they were seen. What is killed does not remove them. */
  shared_memory: z.array(z.string().regex(/^\/dev\/shm\/[\w.-]+$/)).default([]),
  /** Milliseconds since 1970 by this host's clock. */
  started_at_ms: z.number(),
})
export type VllmState = z.infer<typeof VllmState>

export type FoundState = { status: 'found'; state: VllmState } | { status: 'none' } | { status: 'damaged' }

const fileOf = (folder: string): string => join(folder, 'state.json')

export function readState(folder: string): FoundState {
  let text: string
  try {
    text = readFileSync(fileOf(folder), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { status: 'none' }
    throw error
  }
  const parsed = VllmState.safeParse(jsonOf(text))
  return parsed.success ? { status: 'found', state: parsed.data } : { status: 'damaged' }
}

export function writeState(folder: string, state: VllmState): void {
  const draft = `${fileOf(folder)}.${process.pid}`
  writeFileSync(draft, JSON.stringify(state), { mode: 0o600 })
  // The mode of writeFileSync counts for files that it creates only.
  chmodSync(draft, 0o600)
  renameSync(draft, fileOf(folder))
}

export function removeState(folder: string): void {
  rmSync(fileOf(folder), { force: true })
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // Not JSON is as damaged as JSON of another shape.
    return null
  }
}
