import { expect, it } from 'vitest'
import { REPORT_GAP_MS, ReportWatch } from './report-watch.ts'

it('no lease waits while reports keep coming, up to the longest time between two', () => {
  const reports = new ReportWatch(0)
  expect(reports.reading(REPORT_GAP_MS)).toBeNull()
  reports.read('a', 2, REPORT_GAP_MS)
  expect(reports.reading(2 * REPORT_GAP_MS)).toBeNull()
})

it('past it all who ask wait for one and the same moment, once', async () => {
  const reports = new ReportWatch(0)
  const listening = reports.reading(REPORT_GAP_MS + 1)
  expect(listening).not.toBeNull()
  expect(reports.reading(REPORT_GAP_MS + 2)).toBe(listening)
  await listening
  expect(reports.reading(2 * REPORT_GAP_MS + 1)).toBeNull()
  expect(reports.reading(2 * REPORT_GAP_MS + 2)).not.toBeNull()
})

it('a report after a gap does not end the wait: others lie behind it', async () => {
  const reports = new ReportWatch(0)
  reports.read('a', 2, REPORT_GAP_MS + 1)
  const listening = reports.reading(REPORT_GAP_MS + 1)
  expect(listening).not.toBeNull()
  reports.read('a', 2, REPORT_GAP_MS + 2)
  expect(reports.reading(REPORT_GAP_MS + 2)).toBe(listening)
  await listening
  expect(reports.reading(REPORT_GAP_MS + 3)).toBeNull()
})

it('the wait ends once each agent has been heard of', async () => {
  const reports = new ReportWatch(0)
  const listening = reports.reading(REPORT_GAP_MS + 1)
  reports.read('a', 2, REPORT_GAP_MS + 2)
  expect(reports.reading(REPORT_GAP_MS + 3)).toBe(listening)
  reports.read('b', 2, REPORT_GAP_MS + 4)
  expect(reports.reading(REPORT_GAP_MS + 5)).toBeNull()
  await listening
})
