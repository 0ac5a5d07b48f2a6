/** A folder with a fake vLLM in it, and what tests ask of one. All that it started is gone when the test has ended. */
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import type { AgentEvent } from '../../../events.ts'
import { temporaryFolder } from '../../../testing/harness.ts'
import { startOf } from '../process/process-group.ts'
import type { VllmHost } from '../process/vllm-host.ts'
import type { VllmWish } from '../process/vllm-launch.ts'
import { VllmProcess, type VllmProcessOptions } from '../process/vllm-process.ts'
import type { VllmAddress } from '../process/vllm-server.ts'

export interface FakeHost {
  /** What a VllmProcess on it is started with, in JSON. */
  options: Omit<VllmProcessOptions, 'report' | 'leaving'>
  setMode(mode: string): void
  setVersion(version: string): void
  /** vLLM is built for GPUs, and the host has one. `found`: what a look at the Python finds beside it. */
  setGpu(found: { cuda?: string; cuda_driver?: string; flashinfer?: VllmHost['flashinfer'] }): void
  /** Pids of all processes that were ever started. */
  pids(): number[]
  alive(): number[]
  text(name: string): string
}

export function fakeHost(wish: Partial<VllmWish> = {}): FakeHost {
  const folder = temporaryFolder()
  const python = join(folder, 'python')
  const script = fileURLToPath(new URL('./fake-vllm.ts', import.meta.url))
  writeFileSync(python, `#!/bin/sh\nexec '${process.execPath}' '${script}' "$@"\n`)
  chmodSync(python, 0o755)
  const model = join(folder, 'model')
  mkdirSync(model)
  writeFileSync(join(model, 'config.json'), '{}')
  const bin = join(folder, 'bin')
  mkdirSync(bin)
  const program = (name: string, script: string): void => {
    writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`)
    chmodSync(join(bin, name), 0o755)
  }
  // It stays until its group is ended.
  program('ninja', 'sleep 600')
  const text = (name: string): string =>
    existsSync(join(folder, name)) ? readFileSync(join(folder, name), 'utf8') : ''
  const pids = (): number[] => text('pids').trim().split('\n').filter(Boolean).map(Number)
  const alive = (): number[] => pids().filter((pid) => startOf(pid) !== null)
  onTestFinished(() => {
    for (const pid of alive()) process.kill(pid, 'SIGKILL')
  })
  return {
    options: {
      engine: 'a-e0',
      folder: join(folder, 'data', 'vllm', 'e0'),
      wish: {
        ...{ python, model, model_id: 'm', args: [], gpus: null, engine_index: 0, engines: 1, kv_swap_gib: null },
        ...{ seats: null, context_tokens: null },
        scheduler: { policy: 'plas', ordering: 'modelled' },
        ...wish,
      },
      start_limit_ms: 60_000,
      env: { PATH: `${bin}:${process.env.PATH}`, FAKE_VLLM: folder },
      restart_pause: { min_ms: 1, max_ms: 2 },
    },
    setVersion: (version) => writeFileSync(join(folder, 'version'), version),
    setGpu: (found) => {
      program('nvidia-smi', "echo '0, NVIDIA L4, 23034, 550.90.07'")
      writeFileSync(join(folder, 'gpu'), JSON.stringify(found))
    },
    setMode: (mode) => writeFileSync(join(folder, 'mode'), mode),
    pids,
    alive,
    text,
  }
}

export interface StartedVllm {
  vllm: VllmProcess
  events: AgentEvent[]
  /** What the listener was told, in order. */
  told: (VllmAddress | string)[]
  leaving: AbortController
  started: Promise<void>
}

export function startVllm(host: FakeHost, options: Partial<VllmProcessOptions> = {}): StartedVllm {
  const events: AgentEvent[] = []
  const told: (VllmAddress | string)[] = []
  const leaving = new AbortController()
  const report = (event: AgentEvent): void => void events.push(event)
  const vllm = new VllmProcess({ ...host.options, report, leaving: leaving.signal, ...options })
  onTestFinished(() => vllm.stop())
  const started = vllm.start({ up: (address) => told.push(address), down: (reason) => told.push(reason) })
  // A test that expects a rejection awaits it itself.
  started.catch(() => undefined)
  return { vllm, events, told, leaving, started }
}
