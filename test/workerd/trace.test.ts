/** Ended programs as lines of a trace: what a capacity plan of a running system plays. */
import { env } from 'cloudflare:workers'
import { beforeAll, describe, expect, it } from 'vitest'
import { programActor } from '../../src/actors/stubs.ts'
import { TRACED_CALLS_MAX } from '../../src/api/traced-programs.ts'
import { ownRows } from './archive-tools.ts'
import { KEY_A, KEY_B, openCall, provision, recordOf, request } from './fixtures.ts'

interface Line {
  id: string
  program: string
  arrival_seconds: number
  response_s: number
  engines: string[]
  calls: { parents: number[]; prompt_tokens: number; output_tokens: number }[]
}
interface Page {
  data: Line[]
  has_more: boolean
  next_cursor: string | null
}

const ADMIN = '/admin/v1/tenants/tenant-a/trace'
const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString()

beforeAll(async () => {
  await provision()
  for (const program of ['first', 'second', 'third']) await ended(program, 2)
  await openCall('running', 'running-0')
})

async function ended(program: string, calls: number): Promise<void> {
  const actor = programActor(env, 'tenant-a', program)
  let run = ''
  for (let at = 0; at < calls; at += 1) {
    run = await openCall(program, `${program}-${at}`)
    const measured = { prompt_tokens: 100 * (at + 1), output_tokens: 10 }
    await actor.settle([recordOf(program, run, `${program}-${at}`, measured)])
  }
  await actor.end(Date.now())
}

async function page(query = '', key = KEY_A, path = '/v1/trace'): Promise<Page> {
  const response = await request('GET', `${path}?${query}`, key)
  expect(response.status).toBe(200)
  return response.json()
}

describe('a trace of what ended here', () => {
  it('has each ended program of the last hour with its calls, and none that runs', async () => {
    const { data } = await page()
    expect(data.map(({ program }) => program).sort()).toEqual(['first', 'second', 'third'])
    expect(data[0]?.calls).toMatchObject([
      { parents: [], prompt_tokens: 100, output_tokens: 10 },
      { parents: [0], prompt_tokens: 200, output_tokens: 10 },
    ])
    expect(new Set(data.map(({ id }) => id)).size).toBe(3)
  })

  it('counts arrivals from the time that is asked for, and leaves out what began before', async () => {
    const since = minutesAgo(30)
    const { data } = await page(`since=${since}`)
    expect(data.map(({ arrival_seconds }) => Math.round(arrival_seconds / 600))).toEqual([3, 3, 3])
    expect((await page(`since=${minutesAgo(-1)}`)).data).toEqual([])
  })

  it('goes on from page to page', async () => {
    const seen: string[] = []
    let cursor = ''
    for (;;) {
      const { data, next_cursor } = await page(`limit=1${cursor}`)
      seen.push(...data.map(({ program }) => program))
      if (next_cursor === null) break
      cursor = `&cursor=${next_cursor}`
    }
    expect(seen.sort()).toEqual(['first', 'second', 'third'])
  })

  it('ends a page before its calls are too many, and holds at least one program', async () => {
    const grow = (program: string, calls: number) =>
      ownRows('tenant-a').prepare('UPDATE ended_programs SET calls = ? WHERE program = ?').bind(calls, program).run()
    const restore = () => Promise.all(['first', 'second', 'third'].map((program) => grow(program, 2)))
    const { data: all } = await page()
    const [one = '', two = ''] = all.map(({ program }) => program)
    await grow(one, TRACED_CALLS_MAX - 2)
    expect((await page()).data).toHaveLength(2)
    await grow(one, TRACED_CALLS_MAX - 1)
    expect((await page()).data).toHaveLength(1)
    await grow(one, TRACED_CALLS_MAX + 1)
    const first = await page()
    expect([first.data.map(({ program }) => program), first.has_more]).toEqual([[one], true])
    const next = await page(`cursor=${first.next_cursor}`)
    expect(next.data.map(({ program }) => program)).toContain(two)
    await restore()
  })

  it('refuses times that are none or too long ago, and cursors of other lists', async () => {
    for (const query of ['since=yesterday', `since=${minutesAgo(367 * 24 * 60)}`, 'cursor=x', 'limit=101']) {
      const response = await request('GET', `/v1/trace?${query}`, KEY_A)
      expect([query, response.status]).toEqual([query, 400])
    }
  })

  it('is a tenant’s own, and the operator’s by its id', async () => {
    expect((await page('', KEY_B)).data).toEqual([])
    const theirs = await page('', KEY_A)
    expect(await page(`since=${minutesAgo(60)}`, env.ADMIN_KEY, ADMIN)).toMatchObject({
      data: theirs.data.map(({ id }) => ({ id })),
    })
    expect((await request('GET', ADMIN, KEY_A)).status).toBe(401)
    expect((await request('GET', '/admin/v1/tenants/nobody/trace', env.ADMIN_KEY)).status).toBe(404)
  })
})
