/** What `npm run up` prints when it is ready: where to reach it, and three things to paste. */
import { DATA_DIR_DEFAULT } from './data-dir.ts'
import type { DevJson } from './dev-json.ts'

export interface BannerContext {
  detached: boolean
  dataDir: string
}

const NOTES: Partial<Record<DevJson['engine'], string>> = {
  emulated: ': a latency model, its text means nothing',
  scripted: ': answers come from a file',
  openai: ': a server that runs by itself',
}

export function banner(system: DevJson, took_s: number, { detached, dataDir }: BannerContext): string {
  const { url, apiKey, model, models, engine, agents, policy } = system
  const others = models === undefined ? '' : `, and ${models.length - 1} more: ${models.slice(1).join(', ')}`
  const flag = dataDir === DATA_DIR_DEFAULT ? '' : ` -- --data-dir ${dataDir}`
  return `
Switchyard is ready after ${took_s.toFixed(1)} s.

  Base URL  ${url}/v1
  API key   ${apiKey}
  Page      ${url} (sign in with the API key; with adminKey of ${dataDir}/dev.json it shows everything)
  Model     ${model} (${engine}${NOTES[engine] ?? ''})${others}
  Regions   ${agents.map(({ region }) => region).join(', ')}, policy ${policy}

${system.serves === 'embeddings' ? embeddingsToTry(system) : textToTry(system, flag)}
Stop:                   ${detached ? `npm run down${flag}` : 'Ctrl-C'}
`
}

function textToTry({ url, apiKey, model }: DevJson, flag: string): string {
  return `Try, with curl:

  curl ${url}/v1/chat/completions \\
    -H 'Authorization: Bearer ${apiKey}' -H 'Content-Type: application/json' -H 'X-Program-Id: my-first' \\
    -d '{"model": "${model}", "max_tokens": 60, "temperature": 0,
         "messages": [{"role": "system", "content": "You are a helpful assistant."},
                      {"role": "user", "content": "What is the capital of France?"}]}'

with Python (pip install openai):

  from openai import OpenAI
  client = OpenAI(base_url="${url}/v1", api_key="${apiKey}",
                  default_headers={"X-Program-Id": "my-first"})
  answer = client.chat.completions.create(model="${model}", max_tokens=60, temperature=0,
      messages=[{"role": "system", "content": "You are a helpful assistant."},
                {"role": "user", "content": "What is the capital of France?"}])
  print(answer.choices[0].message.content)

with TypeScript (npm install openai):

  import OpenAI from 'openai'
  const client = new OpenAI({ baseURL: '${url}/v1', apiKey: '${apiKey}',
    defaultHeaders: { 'X-Program-Id': 'my-first' } })
  const answer = await client.chat.completions.create({ model: '${model}', max_tokens: 60, temperature: 0,
    messages: [{ role: 'system', content: 'You are a helpful assistant.' },
               { role: 'user', content: 'What is the capital of France?' }] })
  console.log(answer.choices[0]?.message.content)

What the program cost:  curl -H 'Authorization: Bearer ${apiKey}' ${url}/v1/programs/my-first
Three programs at once: npm run demo${flag}`
}

/** A model for embeddings writes no text. */
function embeddingsToTry({ url, apiKey, model }: DevJson): string {
  return `This model makes embeddings and writes no text. Try, with curl:

  curl ${url}/v1/embeddings \\
    -H 'Authorization: Bearer ${apiKey}' -H 'Content-Type: application/json' \\
    -d '{"model": "${model}", "input": ["What is the capital of France?", "Paris"]}'

with Python (pip install openai):

  from openai import OpenAI
  client = OpenAI(base_url="${url}/v1", api_key="${apiKey}")
  answer = client.embeddings.create(model="${model}", input=["What is the capital of France?", "Paris"])
  print(len(answer.data[0].embedding))
`
}
