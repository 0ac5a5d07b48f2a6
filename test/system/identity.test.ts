/** Coding agents’ calls against the running system: whose program they are, and what their prompts cost the second time. */
import type OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AGENT_REQUESTS } from '../../src/core/testing/agent-requests.ts'
import { eventually, System } from './support/system.ts'

let system: System

beforeAll(async () => {
  system = await System.start({ engine: 'embedded' })
})
afterAll(async () => {
  await system.remove()
})

const ask = (
  headers: Readonly<Record<string, string>>,
  messages: OpenAI.ChatCompletionMessageParam[],
  max_tokens = 1,
) =>
  system
    .client({ headers: { ...headers } })
    .chat.completions.create({ model: system.dev.model, messages, max_tokens, temperature: 0 })

describe('the headers of coding agents', () => {
  it('make the calls of an agent and its sub-agents one program, and each sub-agent a thread of it', async () => {
    const programs = Map.groupBy(AGENT_REQUESTS, ({ program }) => program)
    for (const { headers, program } of AGENT_REQUESTS) {
      const { response } = await system
        .client({ headers: { ...headers } })
        .chat.completions.create({
          model: system.dev.model,
          messages: [{ role: 'user', content: 'Hi' }],
          max_tokens: 1,
        })
        .withResponse()
      expect(response.headers.get('x-program-id')).toBe(program)
    }
    for (const [program, requests] of programs) {
      const calls = await eventually(`the calls of ${program}`, async () => {
        const page = await system.fetch(`/v1/programs/${encodeURIComponent(program)}/calls?limit=100`)
        const { data } = (await page.json()) as { data?: { thread: string }[] }
        return data?.length === requests.length ? data : undefined
      })
      const threads = requests.flatMap(({ thread }) => thread ?? [])
      expect(calls.map(({ thread }) => thread)).toEqual(expect.arrayContaining(threads))
      expect(new Set(calls.map(({ thread }) => thread)).size).toBe(new Set(requests.map(({ thread }) => thread)).size)
    }
  })
})

describe('a nonce at the head of the prompt', () => {
  const RULES = Array.from({ length: 40 }, (_, rule) => `Rule ${rule}: be brief and name the file.`).join('\n')
  const head = (cch: string) => `x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=cli; cch=${cch};`
  const messages = (cch: string): OpenAI.ChatCompletionMessageParam[] => [
    { role: 'system', content: `${head(cch)}\nYou are a coding agent.\n${RULES}` },
    { role: 'user', content: 'Which rule is first?' },
  ]

  async function secondCall(headers: Record<string, string>) {
    await ask(headers, messages('36ee5'))
    const { usage } = await ask(headers, messages('0aaa9'))
    const cached = usage?.prompt_tokens_details?.cached_tokens ?? 0
    return { cached, prompt: usage?.prompt_tokens ?? 0 }
  }

  it('does not keep the engine from finding the rest of it in its cache', async () => {
    const { cached, prompt } = await secondCall({ 'X-Program-Id': 'nonce-stripped' })
    expect(prompt).toBeGreaterThan(300)
    expect(cached).toBeGreaterThan(0.9 * prompt)
  })

  it('does where the client keeps it', async () => {
    const { cached, prompt } = await secondCall({ 'X-Program-Id': 'nonce-kept', 'X-Prompt-Head': 'keep' })
    expect(cached).toBeLessThan(0.5 * prompt)
  })
})
