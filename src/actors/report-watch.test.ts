import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { LISTEN_PAUSED_MS, REPORT_GAP_MS, ReportWatch } from './report-watch.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

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
  await vi.advanceTimersByTimeAsync(LISTEN_PAUSED_MS)
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
  await vi.advanceTimersByTimeAsync(LISTEN_PAUSED_MS)
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

it('after a pause it listens for long once: agents that stay silent delay no later lease for as long', async () => {
  const reports = new ReportWatch(0)
  const ended: number[] = []
  const listen = (at_ms: number, number: number) => void reports.reading(at_ms)?.then(() => ended.push(number))
  const short_ms = LISTEN_PAUSED_MS / 4
  listen(10 * REPORT_GAP_MS, 1)
  await vi.advanceTimersByTimeAsync(short_ms)
  expect(ended).toEqual([])
  await vi.advanceTimersByTimeAsync(LISTEN_PAUSED_MS)
  listen(20 * REPORT_GAP_MS, 2)
  await vi.advanceTimersByTimeAsync(short_ms)
  expect(ended).toEqual([1, 2])
  reports.read('a', 1, 20 * REPORT_GAP_MS + 1)
  listen(30 * REPORT_GAP_MS, 3)
  await vi.advanceTimersByTimeAsync(short_ms)
  expect(ended).toEqual([1, 2])
})
