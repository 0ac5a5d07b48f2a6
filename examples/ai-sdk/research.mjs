/**
 * The AI SDK: an agent whose tool asks other agents, several at the same time. One program with exact threads and parents.
 *
 *   npm install @switchyard-llm/client ai @ai-sdk/openai zod
 *   export OPENAI_BASE_URL=http://127.0.0.1:8787/v1 OPENAI_API_KEY=sk-sy-... MODEL=...
 *   node research.mjs
 */

import { createOpenAI } from '@ai-sdk/openai'
import { asStep, program } from '@switchyard-llm/client'
import { generateText, stepCountIs, tool } from 'ai'
import { z } from 'zod'

const model = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL }).chat(process.env.MODEL)

// The AI SDK runs the tool calls of one answer at the same time. As steps they are threads of their own.
const reporter = tool({
  description: 'Asks a reporter about one city.',
  inputSchema: z.object({ city: z.string() }),
  execute: asStep('reporter', async ({ city }) => {
    const { text } = await generateText({ model, prompt: `Report on ${city} only.` })
    return text
  }),
})

const id = await program('city-research', async (run) => {
  const { text } = await generateText({
    model,
    system: 'Ask a reporter about each city before you compare them.',
    prompt: 'Is it warmer in Paris or in Oslo?',
    tools: { reporter },
    stopWhen: stepCountIs(5),
  })
  console.log(text)
  return run.id
})
console.log(`GET /v1/programs/${id}/calls`)
