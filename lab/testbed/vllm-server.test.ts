import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { VllmServer, type VllmSetting } from './vllm-server.ts'

const WAIT_MS_MAX = 20_000
let folder: string

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'switchyard-vllm-server-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** In place of Python: it never answers, and has a process of its own as vLLM has. Its arguments and that process's pid lie in files. */
function silent(): VllmSetting {
  const python = path.join(folder, 'python')
  writeFileSync(
    python,
    `#!/bin/sh\nprintf '%s\\n' "$@" > '${folder}/arguments'\nsleep 1000 &\necho $! > '${folder}/pid.part'\nmv '${folder}/pid.part' '${folder}/pid'\nwait\n`,
  )
  chmodSync(python, 0o755)
  return { python, model: 'model', served_model: 'model', folder, kv_blocks: 100, kv_block_bytes: () => 2 ** 20 }
}

async function pidOfItsProcess(): Promise<number> {
  const file = path.join(folder, 'pid')
  await until(() => existsSync(file))
  return Number(readFileSync(file, 'utf8'))
}

async function until(holds: () => boolean): Promise<void> {
  const last_ms = performance.now() + WAIT_MS_MAX
  while (!holds()) {
    if (performance.now() > last_ms) throw new Error('waited in vain')
    await sleep(20)
  }
}

function isRunning(pid: number): boolean {
  // A zombie has ended, and waits for a parent to ask.
  const status = path.join('/proc', String(pid), 'stat')
  return existsSync(status) && !/\) Z /.test(readFileSync(status, 'utf8'))
}

test('a server that is stopped while it starts leaves no process, and is not started again', async () => {
  const server = await VllmServer.create('switchyard', silent())
  const started = expect(server.start()).rejects.toThrow('ended before it was ready')
  const pid = await pidOfItsProcess()
  expect(isRunning(pid)).toBe(true)
  await server.stop()
  await started
  await until(() => !isRunning(pid))
  await expect(server.start()).rejects.toThrow('was stopped')
})

test('the rings of the swap take their blocks from the KV', async () => {
  const values: Record<string, string | undefined> = {}
  for (const name of ['switchyard', 'switchyard-swap'] as const) {
    rmSync(path.join(folder, 'pid'), { force: true })
    const server = await VllmServer.create(name, silent())
    const started = expect(server.start()).rejects.toThrow()
    await pidOfItsProcess()
    await server.stop()
    await started
    const words = readFileSync(path.join(folder, 'arguments'), 'utf8').split('\n')
    values[name] = words[words.indexOf('--num-gpu-blocks-override') + 1]
    const transfer = words[words.indexOf('--kv-transfer-config') + 1] ?? ''
    if (name === 'switchyard') continue
    const { ring_gib, prefetch_gib } = JSON.parse(transfer).kv_connector_extra_config
    // Blocks of 1 MiB: what is left of each is less than one.
    expect([ring_gib, prefetch_gib].map((gib) => Math.floor(gib * 1024))).toEqual([4, 4])
  }
  expect(values).toEqual({ switchyard: '101', 'switchyard-swap': '93' })
})
