import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, expect, test } from 'vitest'
import type { RunOutcome } from './run-outcome.ts'
import { runSpec } from './run-spec.ts'
import { codeVersion, RunStore } from './run-store.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'run-store-'))
afterAll(() => rmSync(folder, { recursive: true }))

const spec = runSpec({ workload: 'mixed', programs: 1, seed: 1, rate: 1, system: 'plas' })

test('an outcome is found again by its spec, under the same code only', () => {
  const store = new RunStore(folder, 'one')
  expect(store.read(spec)).toBeNull()
  store.write(spec, { calls: 3 } as RunOutcome)
  expect(new RunStore(folder, 'one').read(spec)).toEqual({ calls: 3 })
  expect(store.read({ ...spec, seed: 2 })).toBeNull()
  expect(new RunStore(folder, 'two').read(spec)).toBeNull()
})

test('the code version follows what a run depends on, and nothing else', () => {
  const root = path.join(folder, 'code')
  const write = (file: string, text: string) => {
    mkdirSync(path.dirname(path.join(root, file)), { recursive: true })
    writeFileSync(path.join(root, file), text)
  }
  write('src/core/a.ts', '1')
  const version = codeVersion(root)
  write('src/core/a.test.ts', 'a test')
  write('simulator/evaluation/report/page.ts', 'a page')
  expect(codeVersion(root)).toBe(version)
  write('src/core/a.ts', '2')
  expect(codeVersion(root)).not.toBe(version)
})
