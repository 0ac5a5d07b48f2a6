/** Calls that belong to no program, on the real model: what they used is metered for their tenant and key. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { eventually, System } from './support/system.ts'

interface Usage {
  prompt_tokens: number
  completion_tokens?: number
}

let system: System
beforeAll(async () => {
  system = await System.start({ engine: 'embedded', flags: ['--regions', 'us-east'] })
})
afterAll(async () => {
  await system?.remove()
})

async function administer<T>(route: string, body: object): Promise<T> {
  const answer = await system.fetch(route, { method: 'POST', apiKey: system.dev.adminKey, body: JSON.stringify(body) })
  expect(answer.status).toBe(201)
  return (await answer.json()) as T
}

it('chat without inference, completions and embeddings are metered by key, as their answers say', async () => {
  const { id } = await administer<{ id: string }>('/admin/v1/tenants', { name: 'Alone', inference: false })
  const keys = await Promise.all(
    ['one', 'two'].map((name) => administer<{ id: string; key: string }>(`/admin/v1/tenants/${id}/keys`, { name })),
  )
  const { model } = system.dev
  const asked: [string, object][] = [
    ['/v1/chat/completions', { model, max_tokens: 5, messages: [{ role: 'user', content: 'Hello?' }] }],
    ['/v1/completions', { model, max_tokens: 7, prompt: 'Salt is' }],
    ['/v1/embeddings', { model, input: 'Salt water' }],
  ]
  for (const [at, { id: key, key: apiKey }] of keys.entries()) {
    const used = { calls: 0, prompt_tokens: 0, output_tokens: 0 }
    // The second key makes one call less, so that the two cannot be taken for each other.
    for (const [route, body] of asked.slice(at)) {
      const answer = await system.fetch(route, { method: 'POST', apiKey, body: JSON.stringify(body) })
      expect(answer.status, route).toBe(200)
      expect(answer.headers.get('x-program-id'), route).toBeNull()
      const { usage } = (await answer.json()) as { usage: Usage }
      used.calls += 1
      used.prompt_tokens += usage.prompt_tokens
      used.output_tokens += usage.completion_tokens ?? 0
    }
    const metered = await eventually('every call is metered', async () => {
      const answer = await system.fetch('/v1/usage', { apiKey })
      const { data } = (await answer.json()) as { data: { key: string; calls: number; service_wall_s: number }[] }
      return data.find((one) => one.key === key && one.calls === used.calls)
    })
    expect(metered).toMatchObject({ ...used, model })
    expect(metered.service_wall_s).toBeGreaterThan(0)
  }
  const other = (await (await system.fetch('/v1/usage')).json()) as { data: { key: string }[] }
  expect(other.data.filter(({ key }) => keys.some(({ id }) => id === key))).toEqual([])
})
