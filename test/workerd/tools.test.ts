/**
 * Tools between the calls of programs: what clients and operators see of them, running, ended and archived, and that a tenant
 * that lies about its tools changes nothing of another's.
 */
import { evictDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { beforeAll, describe, expect, it } from 'vitest'
import { classActor, programActor } from '../../src/actors/stubs.ts'
import type { CallRecord, ToolResult } from '../../src/protocol/index.ts'
import { putClass } from '../../src/store/classes.ts'
import { flushed } from './actor-tools.ts'
import { admission, json, KEY_A, KEY_B, leaseOf, programStub, provision, recordOf, request } from './fixtures.ts'

const ADMIN_KEY = env.ADMIN_KEY
const SEARCH: ToolResult = { name: 'search', tokens: 30 }

beforeAll(provision)

/** Opens a call at this time, and gives its run. */
async function open(program: string, call: string, at_ms: number, results: ToolResult[] = [], tenant = 'tenant-a') {
  const actor = programActor(env, tenant, program)
  const asked = { tenant, class: 'app:agents', app: 'agents', tool_results: results, now_ms: at_ms }
  const reply = await actor.admit(admission(program, call, asked))
  if (reply.status !== 'admitted') throw new Error(reply.message)
  await actor.leaseOpened(leaseOf(reply.run, call))
  return reply
}

/** The Worker has answered at this time, and the agent’s record says which tools the answer asked for. */
async function answer(
  program: string,
  run: string,
  call: string,
  at_ms: number,
  change: Partial<CallRecord>,
  tenant = 'tenant-a',
) {
  const actor = programActor(env, tenant, program)
  await actor.callEnded({ run, call, outcome: 'completed', error_code: null, now_ms: at_ms })
  await actor.settle([recordOf(program, run, call, { tenant, ...change })])
}

interface Answer {
  activity: string | null
  tools: { name: string | null; expected_s: number | null }[]
  data: { id: string; tools: object[]; tool_s: number | null; expected_tool_s: number | null }[]
}

const shown = (path: string, key = KEY_A) => json<Answer>(request('GET', path, key))

describe('a program with tools', () => {
  it('is shown as it reasons and acts, also after a restart and from the archive', async () => {
    const now_ms = Date.now()
    const { run } = await open('agent', 'one', now_ms - 5000)
    expect(await shown('/v1/programs/agent')).toMatchObject({ activity: 'reasoning', tools: [] })
    const waste = { preserve: 3_000_000, discard: 900_000_000, swap: null }
    const handled = { handling: 'preserve', reason: 'least_waste', waste } as const
    const told = { tools: ['search', 'read'], expected_tool_us: 1_500_000, handled }
    await answer('agent', run, 'one', now_ms - 4000, told)
    const kv = { handling: 'preserve', reason: 'least_waste', waste_byte_s: waste }
    const acting = { name: 'search', call: 'one', since: new Date(now_ms - 4000).toISOString(), expected_s: 1.5, kv }
    expect(await shown('/v1/programs/agent')).toMatchObject({ activity: 'acting', tools: [acting, { name: 'read' }] })
    await evictDurableObject(programStub('agent'))
    expect(await shown('/v1/programs/agent')).toMatchObject({ activity: 'acting', tools: [acting, { name: 'read' }] })

    expect(await open('agent', 'two', now_ms - 1500, [SEARCH])).toMatchObject({ position: 1, last_tool: 'search' })
    const calls = [
      {
        id: 'one',
        tools: [
          { name: 'search', returned: true, duration_s: null, answer_tokens: 30 },
          { name: 'read', returned: false, duration_s: null, answer_tokens: null },
        ],
        ...{ tool_s: 2.5, expected_tool_s: 1.5, kv },
      },
      { id: 'two', tools: [], tool_s: null, expected_tool_s: null, kv: null },
    ]
    expect((await shown('/v1/programs/agent/calls')).data).toMatchObject(calls)
    await flushed('agent')
    await evictDurableObject(programStub('agent'))
    await answer('agent', run, 'two', now_ms, { tools: [] })
    expect((await request('DELETE', '/v1/programs/agent', KEY_A)).status).toBe(200)
    expect(await shown('/v1/programs/agent')).toMatchObject({ state: 'ended', activity: null, tools: [] })
    expect((await shown('/v1/programs/agent/calls')).data).toMatchObject(calls)
  })

  it('leaves out a tool that has run for too long: it does not return', async () => {
    const now_ms = Date.now()
    const { run } = await open('stuck', 'one', now_ms - 2 * 3_600_000)
    await answer('stuck', run, 'one', now_ms - 2 * 3_600_000, { tools: ['search'] })
    const { activity, tools } = await shown('/v1/programs/stuck')
    // A program without a call for so long may have gone stale.
    expect([activity === 'acting' || activity === null, tools]).toEqual([true, []])
  })

  it('has no result of a tool that nothing asked for', async () => {
    const now_ms = Date.now()
    const { run } = await open('liar', 'one', now_ms - 100)
    await answer('liar', run, 'one', now_ms - 50, { tools: [] })
    await open('liar', 'two', now_ms + 1000, [{ name: 'invented', tokens: 9_000_000 }])
    expect((await shown('/v1/programs/liar/calls')).data[0]).toMatchObject({ tools: [], tool_s: 1.05 })
  })
})

describe('a class with tools', () => {
  const classOf = async (tenant: string) => {
    const told = await classActor(env, tenant, 'app:agents').sketch(null)
    return told?.sketch.tools ?? null
  }

  it('learns of them from each end, and a tenant that lies changes nothing of another’s', async () => {
    const now_ms = Date.now()
    const { run } = await open('honest', 'h1', now_ms - 9000)
    await answer('honest', run, 'h1', now_ms - 8000, { tools: ['deploy'] })
    await open('honest', 'h2', now_ms - 6000, [{ name: 'deploy', tokens: 12 }])
    await answer('honest', run, 'h2', now_ms - 5000, { tools: [] })
    expect((await request('DELETE', '/v1/programs/honest', KEY_A)).status).toBe(200)
    const learned = () => classOf('tenant-a').then((tools) => tools?.tools.find(({ name }) => name === 'deploy'))
    await expect.poll(learned).toMatchObject({ uses: 1, answer_tokens: [[expect.any(Number), 1, 12]] })
    expect((await learned())?.duration_us[0]?.[2]).toBe(2_000_000)

    const lie = await open('lie', 'l1', now_ms - 9000, [], 'tenant-b')
    await answer('lie', lie.run, 'l1', now_ms, { tools: ['deploy'] }, 'tenant-b')
    await open('lie', 'l2', now_ms - 8000, [{ name: 'deploy', tokens: 1_000_000 }], 'tenant-b')
    await answer('lie', lie.run, 'l2', now_ms, { tools: [] }, 'tenant-b')
    expect((await request('DELETE', '/v1/programs/lie', KEY_B)).status).toBe(200)
    // Its clock went backwards: the tool took no time.
    await expect.poll(async () => (await classOf('tenant-b'))?.tools[0]?.duration_us).toEqual([[0, 1, 0]])
    expect(await learned()).toMatchObject({ uses: 1 })
  })

  it('is shown to operators with its tools, and to no tenant', async () => {
    const told = await classActor(env, 'tenant-a', 'app:agents').sketch(null)
    if (told === null) throw new Error('nothing is known of the class')
    const row = { tenant: 'tenant-a', class: 'app:agents', ends: 1, updated_at_ms: Date.now(), sketch: told.sketch }
    await putClass(env.DB, row)
    const path = '/admin/v1/classes/tenant-a/app%3Aagents'
    const { tools } = await json<{ tools: object[] }>(request('GET', path, ADMIN_KEY))
    expect(tools).toContainEqual({
      ...{ name: 'deploy', kind: 'named', uses: 1 },
      duration_s: { p10: 2, p50: 2, p90: 2, p99: 2 },
      answer_tokens: { p10: 12, p50: 12, p90: 12, p99: 12 },
    })
    expect((await request('GET', path, KEY_A)).status).toBe(401)
  })
})
