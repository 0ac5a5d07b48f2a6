/**
 * `up --engine vllm` where vLLM cannot be started: one sentence, exit code 1, and nothing left running. What is refused here is
 * refused before vLLM is looked for, so no vLLM is needed.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runCommand } from '../../lab/testbed/run-command.ts'
import { freePort } from '../../ops/system/free-port.ts'
import { lockHolder } from '../../ops/system/lock.ts'

const HERE = process.platform === 'linux' && process.arch === 'x64'
let folder: string

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'switchyard-vllm-'))
  mkdirSync(path.join(folder, 'model'))
  writeFileSync(path.join(folder, 'model', 'config.json'), '{}')
  process.env.SWITCHYARD_VLLM_PYTHON = '/no/such/python'
  process.env.SWITCHYARD_VLLM_DEVICE = 'cpu'
})
afterAll(() => {
  delete process.env.SWITCHYARD_VLLM_PYTHON
  delete process.env.SWITCHYARD_VLLM_DEVICE
  rmSync(folder, { recursive: true, force: true })
})

async function refusal(...flags: string[]): Promise<string> {
  const dataDir = path.join(folder, 'data')
  const place = ['--data-dir', dataDir, '--port', String(await freePort())]
  const { code, stderr } = await runCommand('ops/up.ts', ['--engine', 'vllm', ...place, ...flags])
  expect(code).toBe(1)
  expect(stderr, 'no stack').not.toMatch(/\n\s+at .*\(/)
  expect(await lockHolder(path.join(dataDir, 'up.lock'))).toBeNull()
  return stderr
}

describe.runIf(HERE)('npm run up -- --engine vllm', () => {
  it('says which Python has no vLLM', async () => {
    const said = await refusal('--model', path.join(folder, 'model'))
    expect(said).toContain('there is no Python at /no/such/python: name a Python that has vLLM')
  })

  it('says what is wrong with a flag for vLLM', async () => {
    const said = await refusal('--model', path.join(folder, 'model'), '--vllm-args', '--port 99')
    expect(said).toContain('--vllm-args --port: the agent takes a free one')
  })

  it('says why a folder is no model', async () => {
    expect(await refusal('--model', folder)).toContain('has no config.json')
  })
})
