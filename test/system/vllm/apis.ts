/** Routes and fields that only a server of vLLM can answer for: several prompts, prompts echoed, Anthropic's Messages, embeddings. */
import Anthropic from '@anthropic-ai/sdk'
import { expect, it } from 'vitest'
import { outcomes } from './answers.ts'
import type { RunningVllm } from './running-vllm.ts'

const PROMPTS = ['One, two, three,', 'Paris is the capital of']
const FRANCE = 'The capital of France is Paris'

export function apis(running: () => RunningVllm): void {
  const greedy = (max_tokens: number) => ({ model: running().system.dev.model, max_tokens, temperature: 0 })

  it('several prompts in one call are answered as each alone, in one piece and as a stream', async () => {
    const client = running().client('prompts')
    const alone: string[] = []
    let prompt_tokens = 0
    for (const prompt of PROMPTS) {
      const { choices, usage } = await client.completions.create({ ...greedy(6), prompt })
      alone.push(choices[0]?.text ?? '')
      prompt_tokens += usage?.prompt_tokens ?? 0
    }
    const both = await client.completions.create({ ...greedy(6), prompt: PROMPTS })
    expect(both.choices.map(({ index, text }) => [index, text])).toEqual([...alone.entries()])
    expect(both.usage).toMatchObject({ prompt_tokens, completion_tokens: 12 })
    const streamed = ['', '']
    for await (const { choices } of await client.completions.create({ ...greedy(6), prompt: PROMPTS, stream: true })) {
      for (const { index, text } of choices) streamed[index] += text
    }
    expect(streamed).toEqual(alone)
    await running().settled('prompts')
    expect(await outcomes(running(), 'prompts')).toEqual(Array.from({ length: 4 }, () => 'completed'))
  })

  it('echo with log probabilities gives each token of the prompt its own, also with nothing generated', async () => {
    const client = running().client('echo')
    const ask = { ...greedy(1), prompt: FRANCE, echo: true, logprobs: 1 }
    const [answer] = (await client.completions.create(ask)).choices
    expect(answer?.text.startsWith(FRANCE)).toBe(true)
    const { tokens = [], token_logprobs = [], text_offset = [] } = answer?.logprobs ?? {}
    expect(tokens.join('')).toBe(answer?.text)
    expect([token_logprobs.length, text_offset.length]).toEqual([tokens.length, tokens.length])
    expect(token_logprobs[0]).toBeNull()
    expect(token_logprobs.slice(1).every((logprob) => logprob !== null && logprob <= 0)).toBe(true)
    const [alone] = (await client.completions.create({ ...ask, max_tokens: 0 })).choices
    expect(alone?.text).toBe(FRANCE)
    expect(alone?.logprobs?.token_logprobs).toEqual(token_logprobs.slice(0, -1))
    await running().settled('echo')
  })

  it('a stop token ends a text and is none of it; bad words are not in it', async () => {
    const client = running().client('stop-tokens')
    const ask = (fields: object) => client.completions.create({ ...greedy(12), prompt: PROMPTS[0] ?? '', ...fields })
    const free = (await ask({})).choices[0]?.text ?? ''
    expect(free).toContain(' four,')
    // The token of a comma, of this model.
    const [stopped] = (await ask({ stop_token_ids: [28] })).choices
    expect(stopped).toMatchObject({ text: free.slice(0, free.indexOf(',')), finish_reason: 'stop' })
    const barred = (await ask({ bad_words: ['four', 'five, six'] })).choices[0]?.text
    expect(barred).not.toMatch(/four|five, six/)
  })

  it('a message streams text, then a call of the tool that it must call, and the result is answered', async () => {
    const { url, apiKey, model } = running().system.dev
    const client = new Anthropic({
      ...{ baseURL: url, apiKey, maxRetries: 0, defaultHeaders: { 'X-Program-Id': 'messages' } },
    })
    const question: Anthropic.MessageParam = { role: 'user', content: 'How is the weather in Paris?' }
    const text = client.messages.stream({ ...{ model, max_tokens: 8, temperature: 0 }, messages: [question] })
    expect(await text.finalText()).not.toBe('')
    const asked = { model, max_tokens: 60, temperature: 0, tools: [WEATHER] }
    const stream = client.messages.stream({
      ...asked,
      ...{ tool_choice: { type: 'tool', name: WEATHER.name }, messages: [question] },
    })
    const events: string[] = []
    for await (const event of stream) events.push(event.type)
    const called = await stream.finalMessage()
    expect(events[0]).toBe('message_start')
    expect(events.at(-1)).toBe('message_stop')
    expect(called.stop_reason).toBe('tool_use')
    expect(called.content).toMatchObject([
      { type: 'tool_use', name: WEATHER.name, input: { city: expect.any(String) } },
    ])
    expect(called.usage.output_tokens).toBeGreaterThan(0)
    const [block] = called.content
    const result: Anthropic.MessageParam = {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: block?.type === 'tool_use' ? block.id : '', content: '21 degrees' },
      ],
    }
    const turns = [question, { role: 'assistant' as const, content: called.content }, result]
    const answered = await client.messages.create({ ...asked, max_tokens: 8, messages: turns })
    expect(answered.usage.input_tokens).toBeGreaterThan(0)
    await running().settled('messages')
    expect(await outcomes(running(), 'messages')).toEqual(['completed', 'completed', 'completed'])
  })

  it('embeddings are refused precisely, since this vLLM serves a model that writes', async () => {
    const { port, api_key } = running().state ?? { port: 0, api_key: '' }
    const body = JSON.stringify({ model: running().system.dev.model, input: 'Hi' })
    const headers = { authorization: `Bearer ${api_key}`, 'content-type': 'application/json' }
    const own = await fetch(`http://127.0.0.1:${port}/v1/embeddings`, { method: 'POST', headers, body })
    expect([own.status, await own.json()]).toEqual([404, { detail: 'Not Found' }])
    const refused = await running()
      .client('embeds')
      .embeddings.create({ model: running().system.dev.model, input: 'Hi' })
      .catch((thrown: unknown) => thrown)
    expect(refused).toMatchObject({ status: 400, code: 'embeddings_unsupported', param: 'model' })
  })
}

const WEATHER = {
  name: 'get_weather',
  description: 'The weather of a city',
  input_schema: {
    type: 'object' as const,
    properties: { city: { type: 'string', enum: ['Paris', 'Rome'] } },
    required: ['city'],
    additionalProperties: false,
  },
}
