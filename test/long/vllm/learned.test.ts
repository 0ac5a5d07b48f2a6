/**
 * vLLM that orders by what programs of a class had: a program ends, its class is told to the agent, and by the agent to the
 * plug-in in the engine's process, which says of each call what it knew when the call came.
 */
import { expect, it } from 'vitest'
import { eventually } from '../../system/support/system.ts'
import { vllmForTests } from '../../system/vllm/running-vllm.ts'

const OUTPUT_TOKENS = 24

const running = vllmForTests('learned')

interface Known {
  class: string
  rank: number
  expected_remaining_tokens: number
}

/** What the engine knew of the one call of a program. */
async function call(program: string): Promise<Known> {
  const client = running().system.client({ headers: { 'X-Program-Id': program, 'X-App': 'story' } })
  const messages = [{ role: 'user' as const, content: 'Tell me a long story.' }]
  const asked = { model: running().system.dev.model, messages, max_tokens: OUTPUT_TOKENS, temperature: 0 }
  const answer = await client.chat.completions.create(asked)
  expect(answer.usage?.completion_tokens).toBe(OUTPUT_TOKENS)
  await running().settled(program)
  const response = await running().system.fetch(`/v1/programs/${program}/calls`)
  const { data } = (await response.json()) as { data: Known[] }
  return data[0] as Known
}

async function knownEnds(): Promise<number> {
  const [agent] = running().system.dev.agents
  const text = await (await fetch(`${agent?.url}/metrics`)).text()
  return Number(/^switchyard_agent_known_class_ends (\d+)$/m.exec(text)?.[1])
}

it('a class that was learned orders calls on vLLM', async () => {
  expect(running().system.dev).toMatchObject({ engine: 'vllm', policy: 'learned' })
  const unknown = await call('teaches')
  expect(unknown).toMatchObject({ class: 'app:story', rank: expect.any(Number) })
  expect((await running().system.fetch('/v1/programs/teaches', { method: 'DELETE' })).status).toBe(200)
  let programs = 0
  await eventually('the engine knows the class', async () => {
    programs += 1
    const { expected_remaining_tokens } = await call(`asks-${programs}`)
    return expected_remaining_tokens !== unknown.expected_remaining_tokens || undefined
  })
  expect(await knownEnds()).toBe(1)
  const { decisions, failures } = await running().counts()
  expect(decisions).toBeGreaterThan(0)
  expect(failures).toBe(0)
})
