/** Where open calls are in their engines' orders: the API asks pools, and they ask the agents. */
import { env } from 'cloudflare:workers'
import { beforeAll, expect, it } from 'vitest'
import { json, KEY_A, openCall, provision, request } from './fixtures.ts'
import { joined } from './joined-agent.ts'

beforeAll(provision)

const POSITION = { waits: true, waited_us: 2_500_000, before: 1, order: 'Q2 of 22: attained service 1.20 s' }
const SHOWN = { waits: true, waited_s: 2.5, before: 1, order: POSITION.order }

interface Calls {
  data: { id: string; position: unknown }[]
}

it('is told of an open call to whoever asks for it, and of no lease that was not asked for', async () => {
  const agent = await joined()
  await openCall('waits', 'call-0')
  const plain = await json<Calls>(request('GET', '/v1/programs/waits/calls', KEY_A))
  expect(plain.data[0]?.position).toBeNull()
  for (const [path, key] of [
    ['/v1/programs/waits/calls?positions=true', KEY_A],
    ['/admin/v1/tenants/tenant-a/programs/waits/calls?positions=true', env.ADMIN_KEY],
  ] as const) {
    const answer = json<Calls>(request('GET', path, key))
    const question = await agent.message()
    expect(question).toEqual({ type: 'positions', id: expect.any(Number), leases: [expect.any(String)] })
    const [lease] = question.leases as [string]
    const positions = [
      { lease, ...POSITION },
      { lease: 'another', ...POSITION, before: 7 },
    ]
    agent.send({ type: 'positions', id: question.id, positions })
    expect((await answer).data[0]?.position).toEqual(SHOWN)
  }
})

it('is not known of an agent that is gone or silent', async () => {
  await openCall('silent', 'call-0')
  const asked = async () =>
    (await json<Calls>(request('GET', '/v1/programs/silent/calls?positions=true', KEY_A))).data[0]?.position
  expect(await asked()).toBeNull()
  await joined()
  expect(await asked()).toBeNull()
})

it('is on the live page', async () => {
  const agent = await joined()
  await openCall('watched', 'call-0')
  const listed = async () =>
    (await json<{ data: { id: string; open_calls: number }[] }>(request('GET', '/v1/programs', KEY_A))).data
  await expect.poll(async () => (await listed()).find(({ id }) => id === 'watched')?.open_calls).toBe(1)
  const live = json<{ tenants: { changed: { id: string; detail: { position: unknown } | null }[] }[] }>(
    request('GET', '/page/live', KEY_A),
  )
  const question = await agent.message()
  const leases = question.leases as string[]
  agent.send({ type: 'positions', id: question.id, positions: leases.map((lease) => ({ lease, ...POSITION })) })
  const rows = (await live).tenants.flatMap(({ changed }) => changed)
  expect(rows.find(({ id }) => id === 'watched')?.detail?.position).toEqual(SHOWN)
})
