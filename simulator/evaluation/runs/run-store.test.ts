import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, expect, test } from 'vitest'
import type { RunOutcome } from './run-outcome.ts'
import { runSpec } from './run-spec.ts'
import { codeVersions, RunStore } from './run-store.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'run-store-'))
afterAll(() => rmSync(folder, { recursive: true }))

const spec = runSpec({ workload: 'mixed', programs: 1, seed: 1, rate: 1, system: 'plas' })

const versions = (plas: string) => ({ ...codeVersions().of, plas })

test('an outcome is found again by its spec, under the same code only', () => {
  const store = new RunStore(folder, versions('one'))
  expect(store.read(spec)).toBeNull()
  store.write(spec, { calls: 3 } as RunOutcome)
  expect(new RunStore(folder, versions('one')).read(spec)).toEqual({ calls: 3 })
  expect(store.read({ ...spec, seed: 2 })).toBeNull()
  expect(new RunStore(folder, versions('two')).read(spec)).toBeNull()
})

test('a version follows the code that runs under a policy depend on, and nothing else', () => {
  const root = path.join(folder, 'code')
  const write = (file: string, text: string) => {
    mkdirSync(path.dirname(path.join(root, file)), { recursive: true })
    writeFileSync(path.join(root, file), text)
  }
  const policies = 'gpu-agent/engine/order/policies'
  const folders = ['fcfs', 'mlfq', 'rr', 'plas', 'learned', 'lamps', 'learned-memory', 'infercept']
  for (const name of folders) write(`${policies}/${name}/${name}.ts`, name)
  write(`${policies}/levels/path.ts`, 'of levels')
  write(`${policies}/atlas/atlas.ts`, "import { a } from '../levels/path.ts'\nimport { b } from '../../policy.ts'\n")
  write('src/core/a.ts', '1')
  const first = codeVersions(root)
  write('src/core/a.test.ts', 'a test')
  write('simulator/evaluation/report/page.ts', 'a page')
  expect(codeVersions(root)).toEqual(first)

  write(`${policies}/levels/path.ts`, 'of levels, changed')
  const second = codeVersions(root)
  expect(second.of.atlas).not.toBe(first.of.atlas)
  expect(second.all).not.toBe(first.all)
  expect({ ...second.of, atlas: '' }).toEqual({ ...first.of, atlas: '' })

  write('src/core/a.ts', '2')
  const third = codeVersions(root)
  for (const name of ['fcfs', 'plas', 'atlas', 'srpt'] as const) expect(third.of[name]).not.toBe(second.of[name])
})
