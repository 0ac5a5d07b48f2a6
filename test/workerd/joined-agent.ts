/** An agent of us-east that has joined its pool. It leaves after each test, and the next one waits until the pool is empty. */
import { env, exports } from 'cloudflare:workers'
import { afterEach, expect } from 'vitest'
import { poolActor } from '../../src/actors/stubs.ts'
import { helloOf, MODEL, ORIGIN, TOKEN_EAST } from './fixtures.ts'
import { Link } from './link-client.ts'

let link: Link | null = null
afterEach(async () => {
  link?.socket.close(1000)
  link = null
  const pool = poolActor(env, { id: 'us-east', location_hint: 'enam' }, MODEL)
  await expect.poll(async () => (await pool.describe(Date.now())).engines).toEqual([])
})

export async function joined(): Promise<Link> {
  const headers = { upgrade: 'websocket', authorization: `Bearer ${TOKEN_EAST}` }
  const path = `${ORIGIN}/agents/v1/link?region=us-east&model=${MODEL}`
  const response = await exports.default.fetch(new Request(path, { headers }))
  link = new Link(response.webSocket as WebSocket)
  link.send(helloOf())
  expect(await link.message()).toMatchObject({ type: 'welcome' })
  return link
}
