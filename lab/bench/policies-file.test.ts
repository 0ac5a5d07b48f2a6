import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { FIGURES_FORMAT, type Figures, readFigures, writeFigures } from './policies-file.ts'
import { POLICIES_SETTINGS } from './policies-settings.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'policies-file-'))
afterAll(() => rmSync(folder, { recursive: true }))

const file = path.join(folder, 'figures.json')
const PARAMETERS = { model: 'm', seats: 4, threads: 1, service: 'wall' as const, labels: 'workload' as const }
const CAPACITY = { programs: 12, busy_s: 30, prefill_tokens_per_s: 200, work_us_per_s: 1e6 }
const FIGURES: Figures = {
  format: FIGURES_FORMAT,
  parameters: PARAMETERS,
  workloads: { react: { setting: POLICIES_SETTINGS.react, capacity: CAPACITY } },
  runs: [],
}
const ALL = Object.values(POLICIES_SETTINGS)

test('what was written is read, and other workloads can be added to it', () => {
  writeFigures(file, { ...FIGURES, goals: [] })
  expect(readFigures(file, PARAMETERS, ALL)).toEqual({ ok: true, figures: FIGURES })
  expect(readFigures(path.join(folder, 'none.json'), PARAMETERS, ALL)).toEqual({ ok: true, figures: null })
})

test('figures of other parameters or another setting are refused with what differs', () => {
  writeFigures(file, FIGURES)
  const messageOf = (result: ReturnType<typeof readFigures>) => (result.ok ? '' : result.message)
  expect(messageOf(readFigures(file, { ...PARAMETERS, threads: 2 }, ALL))).toContain('has runs with threads 1, not 2')
  const other = { ...POLICIES_SETTINGS.react, load: 9 }
  expect(messageOf(readFigures(file, PARAMETERS, [other]))).toContain('has runs with react: load 3, not 9')
})

test('a file of an older format is refused as such, any other file as none of this benchmark', () => {
  writeFileSync(file, JSON.stringify({ parameters: { programs: 60, load: 1.4 }, capacity: CAPACITY, runs: [] }))
  expect(readFigures(file, PARAMETERS, ALL)).toEqual({
    ok: false,
    message: `${file} was written by another version of this benchmark (format 2 is read); name another file`,
  })
  writeFileSync(file, '{"hello":1}')
  expect(readFigures(file, PARAMETERS, ALL)).toMatchObject({
    message: `${file} holds no figures of this benchmark; name another file`,
  })
  writeFileSync(file, '{')
  expect(readFigures(file, PARAMETERS, ALL)).toMatchObject({ ok: false })
})
