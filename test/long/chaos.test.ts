/** Two minutes of `npm run chaos` under a fixed seed: every invariant holds, and hundreds of calls were struck. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, expect, it } from 'vitest'
import type { ChaosResult } from '../../lab/chaos/run.ts'
import { runCommand } from '../../lab/testbed/run-command.ts'

const SEED = 20261121
const TIMEOUT_MS = 400_000
const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-chaos-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

it(
  'two minutes of everything that can fail break no invariant',
  async () => {
    const json = path.join(folder, 'result.json')
    const flags = ['--seed', String(SEED), '--minutes', '2', '--json', json, '--log', path.join(folder, 'log.jsonl')]
    const { code, stdout, stderr } = await runCommand('lab/chaos.ts', flags)
    expect(code, `${stdout}\n${stderr.slice(-4000)}`).toBe(0)
    const result = JSON.parse(readFileSync(json, 'utf8')) as ChaosResult
    expect(Object.values(result.violations).flat()).toEqual([])
    expect(result.programs).toBeGreaterThan(50)
    expect(result.ends.completed).toBeGreaterThan(200)
    expect(Object.keys(result.faults).length).toBeGreaterThan(10)
    expect(result.samples).toBeGreaterThan(10)
  },
  TIMEOUT_MS,
)

it('wrong flags are named, and a log without a plan is refused', async () => {
  for (const [flags, named] of [
    [['--minutes', '0'], '--minutes'],
    [['--seed', 'x'], '--seed'],
    [['--replay', 'package.json'], 'package.json'],
    [['--frobnicate'], '--frobnicate'],
  ] as const) {
    const { code, stderr } = await runCommand('lab/chaos.ts', [...flags])
    expect(code).toBe(1)
    expect(stderr).toContain(named)
  }
})
