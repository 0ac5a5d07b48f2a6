/** Single calls through the openai package: what a client sees of vLLM is what it sees of every engine. */
import { APIError } from 'openai'
import { expect, it } from 'vitest'
import type { RunningVllm } from './running-vllm.ts'

const FRANCE = 'What is the capital of France?'

export function answers(running: () => RunningVllm): void {
  it('answers a question that the model knows, with usage, service and wait', async () => {
    const { text, finish, usage, switchyard } = await running().ask('knows', { content: FRANCE, max_tokens: 24 })
    expect(text).toContain('Paris')
    expect(finish).toBe('stop')
    expect(usage.total_tokens).toBe(usage.prompt_tokens + usage.completion_tokens)
    expect(usage.prompt_tokens_details?.cached_tokens).toBeGreaterThanOrEqual(0)
    expect(switchyard).toMatchObject({ region: 'us-east', engine: 'us-east-1-e0', emulated: false, preemptions: 0 })
    expect(switchyard.service_s).toBeGreaterThan(0)
    expect(switchyard.service_wall_s).toBeGreaterThan(0)
    expect(switchyard.wait_s).toBeGreaterThanOrEqual(0)
    await running().settled('knows')
  })

  it('streams the same text that it gives in one piece, chunk by chunk', async () => {
    const ask = { content: 'Count from one to ten in words.', max_tokens: 32 }
    const seen: string[] = []
    const whole = await running().ask('whole', ask)
    const streamed = await running().ask('streamed', { ...ask, stream: true, onText: (text) => void seen.push(text) })
    expect(streamed).toMatchObject({ text: whole.text, finish: whole.finish })
    expect(streamed.usage.completion_tokens).toBe(whole.usage.completion_tokens)
    expect(new Set(seen).size).toBeGreaterThan(8)
  })

  it('ends at a stop string, which is not in the text, as a call that completed', async () => {
    const { text, finish } = await running().ask('stops', { content: FRANCE, max_tokens: 24, stop: ['Paris'] })
    expect(finish).toBe('stop')
    expect(text).toContain('capital')
    expect(text).not.toContain('Paris')
    await running().settled('stops')
    expect(await outcomes(running(), 'stops')).toEqual(['completed'])
  })

  it('ends at max_tokens with finish_reason length', async () => {
    const { finish, usage } = await running().ask('length', { content: 'Tell me a long story.', max_tokens: 5 })
    expect(finish).toBe('length')
    expect(usage.completion_tokens).toBe(5)
  })

  it('json_schema: the answer parses and conforms', async () => {
    const answer = await running()
      .client('schema')
      .chat.completions.create({
        model: running().system.dev.model,
        messages: [{ role: 'user', content: 'Describe a fruit as JSON.' }],
        max_tokens: 80,
        temperature: 0,
        response_format: { type: 'json_schema', json_schema: { name: 'fruit', strict: true, schema: FRUIT } },
      })
    const fruit = JSON.parse(answer.choices[0]?.message.content ?? '') as { colour: string; sweet: boolean }
    expect(['red', 'green', 'yellow']).toContain(fruit.colour)
    expect(typeof fruit.sweet).toBe('boolean')
    expect(Object.keys(fruit).sort()).toEqual(['colour', 'sweet'])
  })

  it('several choices are one call: the prompt counts once, and one record has all its service', async () => {
    const answer = await running()
      .client('choices')
      .chat.completions.create({
        model: running().system.dev.model,
        messages: [{ role: 'user', content: 'Name a colour.' }],
        max_tokens: 8,
        n: 2,
        seed: 1,
      })
    expect(answer.choices.map(({ index }) => index).sort()).toEqual([0, 1])
    expect(answer.usage?.completion_tokens).toBeLessThanOrEqual(16)
    await running().settled('choices')
    expect(await outcomes(running(), 'choices')).toEqual(['completed'])
  })

  it('a prompt that does not fit is refused with 400 and says what to do', async () => {
    const refused = await running()
      .ask('overflow', { content: 'word '.repeat(6000), max_tokens: 8 })
      .catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(APIError)
    expect(refused).toMatchObject({ status: 400, type: 'invalid_request_error' })
    expect((refused as APIError).message).toMatch(/token/)
  })
}

const FRUIT = {
  type: 'object',
  properties: { colour: { type: 'string', enum: ['red', 'green', 'yellow'] }, sweet: { type: 'boolean' } },
  required: ['colour', 'sweet'],
  additionalProperties: false,
}

export async function outcomes(running: RunningVllm, program: string): Promise<(string | null)[]> {
  const answer = await running.system.fetch(`/v1/programs/${program}/calls?limit=100`)
  return ((await answer.json()) as { data: { outcome: string | null }[] }).data.map(({ outcome }) => outcome)
}
