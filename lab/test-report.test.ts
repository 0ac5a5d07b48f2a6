import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { reportOf } from './test-report.ts'

let folder = ''
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'switchyard-report-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const ONE = { title: '', ancestorTitles: [], failureMessages: [] }

test('names what failed with the beginning of why, and what was skipped', () => {
  const file = path.join(folder, 'mixed.json')
  const assertionResults = [
    { ...ONE, fullName: 'adds', status: 'passed' },
    {
      ...ONE,
      fullName: 'subtracts',
      status: 'failed',
      failureMessages: ['\u001b[31mexpected 1\u001b[39m\n at line 3'],
    },
    { ...ONE, fullName: 'divides', status: 'pending' },
  ]
  writeFileSync(
    file,
    JSON.stringify({ testResults: [{ name: '/repo/a.test.ts', status: 'failed', message: '', assertionResults }] }),
  )

  expect(reportOf(file, '/repo')).toEqual({
    passed: 1,
    failed: ['a.test.ts: subtracts\n    expected 1\n     at line 3'],
    skipped: ['a.test.ts: divides'],
  })
})

test('a file that could not be loaded has failed', () => {
  const file = path.join(folder, 'unloaded.json')
  writeFileSync(
    file,
    JSON.stringify({
      testResults: [{ name: '/repo/b.test.ts', status: 'failed', message: 'no such module', assertionResults: [] }],
    }),
  )

  expect(reportOf(file, '/repo').failed).toEqual(['b.test.ts\n    no such module'])
})

test('a run that wrote no report has tested nothing', () => {
  expect(reportOf(path.join(folder, 'none.json'), '/repo')).toEqual({ passed: 0, failed: [], skipped: [] })
})
