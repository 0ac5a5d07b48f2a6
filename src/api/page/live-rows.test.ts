import { expect, test } from 'vitest'
import type { ProgramListed } from '../../actors/contracts.ts'
import { GONE_MAX, LiveRows, RATE_WINDOW_MS, ROWS_MAX } from './live-rows.ts'
import { VIEWER_SILENT_MS, VIEWERS_MAX, VIEWERS_PER_TENANT_MAX, Viewers } from './viewers.ts'

const listed = (program: string, change: Partial<ProgramListed> = {}): ProgramListed => ({
  ...{ program, run: 'run', app: null, source: null, started_at_ms: 1, last_arrival_ms: 1, open_calls: 0, calls: 1 },
  ...{ service_us: 1_000_000, class: 'c', output_tokens: 10 },
  ...change,
})
const NONE = new Map()
const DETAIL = {
  ...{
    wait_s: 1,
    service_wall_s: 3,
    prompt_tokens: 2,
    cached_tokens: 1,
    engine: 'e',
    region: 'r',
    model: 'm',
    tools: [],
    ...{ rank: 2, expected_remaining_tokens: null, position: null, weight: 1 },
  },
}
const idsOf = ({ changed }: ReturnType<LiveRows['since']>) => changed.map(({ id }) => id)

test('a viewer gets what changed since its version, and one without a version gets all', () => {
  const rows = new LiveRows()
  rows.take([listed('a'), listed('b')], 2, NONE, 0)
  const seen = rows.version
  expect(rows.since(null)).toMatchObject({ reset: true, gone: [] })
  rows.take([listed('a', { calls: 2 }), listed('b')], 2, NONE, 1000)
  expect([idsOf(rows.since(seen)), idsOf(rows.since(null))]).toEqual([['a'], ['a', 'b']])
  expect(idsOf(rows.since(rows.version))).toEqual([])
  rows.take([listed('b')], 1, NONE, 2000)
  expect(rows.since(seen)).toMatchObject({ reset: false, changed: [], gone: ['a'] })
  rows.take([listed('a', { run: 'again' }), listed('b')], 2, NONE, 3000)
  expect(rows.since(seen)).toMatchObject({ changed: [{ id: 'a', run: 'again' }], gone: [] })
})

test('a viewer that is behind by more ends than are remembered gets all rows again', () => {
  const rows = new LiveRows()
  for (let at = 0; at * ROWS_MAX <= GONE_MAX + ROWS_MAX; at++) {
    const many = Array.from({ length: ROWS_MAX }, (_, n) => listed(`p-${at}-${n}`))
    rows.take(many, ROWS_MAX, NONE, at)
  }
  expect(rows.since(1).reset).toBe(true)
  expect(rows.since(rows.version - 1)).toMatchObject({ reset: false })
  rows.take(
    [...Array(ROWS_MAX + 1).keys()].map((n) => listed(`last-${n}`)),
    ROWS_MAX + 1,
    NONE,
    99,
  )
  expect([rows.since(null).changed.length, rows.running]).toEqual([ROWS_MAX, ROWS_MAX + 1])
})

test('a program is asked when its row is new or changed, the latest caller first', () => {
  const rows = new LiveRows()
  const [a, b] = [listed('a'), listed('b', { last_arrival_ms: 5 })]
  expect(rows.changed([a, b])).toEqual(['b', 'a'])
  rows.take([a, b], 2, new Map([['a', DETAIL]]), 0)
  expect(rows.changed([a, b])).toEqual(['b'])
  expect(rows.changed([{ ...a, open_calls: 1 }, b])).toEqual(['b', 'a'])
  rows.take([{ ...a, open_calls: 1 }, b], 2, NONE, 1)
  expect(rows.since(null).changed[0]?.detail).toEqual(DETAIL)
})

test('an open call shows where it is on its engine, each time the engines were asked, until it has ended', () => {
  const rows = new LiveRows()
  const a = listed('a', { open_calls: 1 })
  const lease = { lease: 'lease-1', region: 'r', model: 'm', agent: 'agent', engine: 'agent-e0' }
  const position = { lease: 'lease-1', waits: true, waited_us: 1_500_000, before: 2, order: 'in order of arrival' }
  const shown = () => rows.since(null).changed[0]?.detail?.position
  rows.take([a], 1, new Map([['a', DETAIL]]), 0)
  // Its call has no engine yet.
  expect(rows.openLeases([a], new Map([['a', []]]))).toEqual([])
  expect(rows.changed([a])).toEqual(['a'])
  expect(rows.openLeases([a], new Map([['a', [lease]]]))).toEqual([lease])
  expect(rows.changed([a])).toEqual([])
  const { version } = rows
  rows.place(new Map([['lease-1', position]]))
  expect(shown()).toEqual({ waits: true, waited_s: 1.5, before: 2, order: 'in order of arrival' })
  expect(rows.since(version).changed.map(({ id }) => id)).toEqual(['a'])
  const known = rows.version
  rows.place(new Map([['lease-1', position]]))
  expect(rows.since(known).changed).toEqual([])
  const ended = listed('a', { calls: 2 })
  rows.take([ended], 1, new Map([['a', DETAIL]]), 1)
  expect(rows.openLeases([ended], new Map([['a', []]]))).toEqual([])
  rows.place(new Map())
  expect(shown()).toBeNull()
})

test('each program’s first and last call come before its others: only so many are asked for', () => {
  const rows = new LiveRows()
  const leasesOf = (...ids: string[]) =>
    ids.map((lease) => ({ lease, region: 'r', model: 'm', agent: 'agent', engine: 'agent-e0' }))
  const both = [listed('a', { open_calls: 3 }), listed('b', { open_calls: 2 })]
  const told = new Map([
    ['a', leasesOf('a1', 'a2', 'a3')],
    ['b', leasesOf('b1', 'b2')],
  ])
  expect(rows.openLeases(both, told).map(({ lease }) => lease)).toEqual(['a1', 'b1', 'a3', 'b2', 'a2'])
})

test('rates count what was settled since the first look, over their window', () => {
  const rows = new LiveRows()
  rows.take([listed('a', { output_tokens: 5000 })], 1, NONE, 0)
  expect([rows.output_tokens_per_s, rows.recent_service_s]).toEqual([0, 0])
  rows.take([listed('a', { output_tokens: 5020, service_us: 3_000_000 }), listed('b')], 2, NONE, 2000)
  expect([rows.output_tokens_per_s, rows.recent_service_s]).toEqual([15, 3])
  rows.take([], 0, NONE, 2000 + RATE_WINDOW_MS + 1)
  expect([rows.output_tokens_per_s, rows.recent_service_s]).toEqual([0, 0])
})

test('viewers have room up to their bounds, and one that is silent leaves it', () => {
  const viewers = new Viewers()
  const open = Array.from({ length: VIEWERS_PER_TENANT_MAX }, () => viewers.open('a', 0))
  expect(open).not.toContain(null)
  expect(viewers.open('a', 0)).toBeNull()
  const [first] = open
  if (first) viewers.close(first)
  expect(viewers.open('a', 0)).not.toBeNull()
  const others = Array.from({ length: VIEWERS_MAX - VIEWERS_PER_TENANT_MAX }, (_, n) => viewers.open(`t-${n}`, 0))
  expect(others).not.toContain(null)
  expect(viewers.open('z', VIEWER_SILENT_MS)).toBeNull()
  const [kept] = others
  if (kept) viewers.written(kept, VIEWER_SILENT_MS)
  expect(viewers.open('z', VIEWER_SILENT_MS + 1)).not.toBeNull()
})
