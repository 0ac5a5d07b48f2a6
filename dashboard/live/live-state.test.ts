import { expect, test } from 'vitest'
import type { LiveEvent, LiveProgram, LiveTenant } from '../../src/protocol/live.ts'
import { ROWS_AROUND, visibleRange } from '../parts/visible-rows.ts'
import { routeOf } from '../route.ts'
import { eventData } from './event-stream.ts'
import { NOTHING_YET, rowsOf, totalsOf, withEvent } from './live-state.ts'

const program = (id: string, change: Partial<LiveProgram> = {}): LiveProgram => ({
  ...{ id, run: 'r', app: null, class: 'c', source: null, started_at_ms: 1, last_arrival_ms: 1, detail: null },
  ...{ calls: 1, open_calls: 0, service_s: 1, output_tokens: 1 },
  ...change,
})
const tenant = (change: Partial<LiveTenant> = {}): LiveTenant => ({
  ...{ id: 't', name: null, weight: 1, running: 1, output_tokens_per_s: 2, service_share: null, reachable: true },
  ...{ reset: false, changed: [], gone: [] },
  ...change,
})
const event = (...tenants: LiveTenant[]): LiveEvent => ({
  ...{ at_ms: 5, tenants, pools: null, tenants_left_out: 0, pools_left_out: 0 },
})

test('an event changes the rows that it names and keeps the others', () => {
  const first = withEvent(NOTHING_YET, event(tenant({ reset: true, changed: [program('a'), program('b')] })))
  const second = withEvent(first, event(tenant({ changed: [program('b', { calls: 2 })], gone: ['a'] })))
  expect([...(second.tenants.get('t')?.programs.values() ?? [])]).toEqual([program('b', { calls: 2 })])
  const third = withEvent(second, event(tenant()))
  expect(third.tenants.get('t')?.programs).toBe(second.tenants.get('t')?.programs)
  expect([...(first.tenants.get('t')?.programs.keys() ?? [])]).toEqual(['a', 'b'])
  expect(withEvent(third, event()).tenants.size).toBe(0)
})

test('rows are filtered by activity and by words of theirs, and ordered', () => {
  const detail = {
    wait_s: 9,
    service_wall_s: 12,
    prompt_tokens: 10,
    cached_tokens: 5,
    engine: 'e1',
    region: 'us',
    model: 'm',
    ...{ rank: 3, expected_remaining_tokens: null, position: null, weight: 1 },
  }
  const state = withEvent(
    NOTHING_YET,
    event(
      tenant({
        reset: true,
        changed: [
          program('old', { service_s: 9 }),
          program('young', { started_at_ms: 2, open_calls: 1 }),
          program('tool', { detail: { ...detail, tools: [{ name: 'search', since: '', expected_s: null }] } }),
        ],
      }),
    ),
  )
  const ids = (...given: [Parameters<typeof rowsOf>[1], Parameters<typeof rowsOf>[2], string]) =>
    rowsOf(state, ...given).map((row) => row.program.id)
  expect(ids('newest', 'all', '')[0]).toBe('young')
  expect(ids('service', 'all', '')[0]).toBe('old')
  expect(ids('wait', 'all', '')[0]).toBe('tool')
  expect(ids('newest', 'reasoning', '')).toEqual(['young'])
  expect(ids('newest', 'all', ' SEARCH ')).toEqual(['tool'])
  expect(totalsOf(state)).toMatchObject({
    reasoning: 1,
    acting: 2,
    tokens_per_s: 2,
    cached_tokens: 5,
    prompt_tokens: 10,
  })
})

test('only rows near the view are in the document', () => {
  expect(visibleRange(0, 340, 34, 1000)).toEqual({ from: 0, to: 10 + ROWS_AROUND })
  expect(visibleRange(3400, 340, 34, 1000)).toEqual({ from: 100 - ROWS_AROUND, to: 110 + ROWS_AROUND })
  expect(visibleRange(34_000, 340, 34, 1000)).toEqual({ from: 1000 - ROWS_AROUND, to: 1000 })
  expect(visibleRange(99_000, 340, 34, 5)).toEqual({ from: 5, to: 5 })
  expect(visibleRange(0, 340, 34, 0)).toEqual({ from: 0, to: 0 })
})

test('an address names a view, and any other is the live one', () => {
  expect(routeOf('')).toEqual({ view: 'live' })
  expect(routeOf('#/audit')).toEqual({ view: 'audit' })
  expect(routeOf('#/constructor')).toEqual({ view: 'live' })
  expect(routeOf('#/programs/t%2F1/%3Cimg%3E')).toEqual({ view: 'program', tenant: 't/1', program: '<img>' })
  expect(routeOf('#/programs/t/%')).toEqual({ view: 'program', tenant: 't', program: '%' })
})

test('events are read whole, however their bytes come', async () => {
  const bytes = new TextEncoder().encode('data: {"a":"é"}\n\n: comment\n\ndata: 2\n\ndata: cut')
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const chunk of [bytes.slice(0, 12), bytes.slice(12, 13), bytes.slice(13)]) controller.enqueue(chunk)
      controller.close()
    },
  })
  const read: string[] = []
  for await (const data of eventData(body)) read.push(data)
  expect(read).toEqual(['{"a":"é"}', '2'])
})
