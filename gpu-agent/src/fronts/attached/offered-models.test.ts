import { expect, it, onTestFinished } from 'vitest'
import type { AgentEvent } from '../../events.ts'
import { offeredModels } from './offered-models.ts'
import type { ServerOptions } from './server-options.ts'
import { PlainServer, type PlainServerOptions } from './testing/plain-server.ts'

async function plain(options: Partial<PlainServerOptions> = {}): Promise<PlainServer> {
  const server = await new PlainServer(options).listen()
  onTestFinished(() => server.close().catch(() => undefined))
  return server
}

function asked(server: PlainServer, given: Partial<ServerOptions> = {}, model_id: string | null = null) {
  const events: AgentEvent[] = []
  const options: ServerOptions = {
    ...{ url: server.url, key_variable: null, api_key: null, kind: null, models: null, kv_tokens: null },
    ...{ probe: false, start_limit_ms: 60_000, limits: [], further_keys: [], ...given },
  }
  const host = { report: (event: AgentEvent) => void events.push(event), stopping: new AbortController().signal }
  return { events, models: offeredModels(options, model_id, host) }
}

it('offers all models under their own names, those that are named, or an only one under another name', async () => {
  const server = await plain({ models: ['a', 'org/b:8b'] })
  expect(await asked(server).models).toEqual([
    { model_id: 'a', model: 'a' },
    { model_id: 'org/b:8b', model: 'org/b:8b' },
  ])
  expect(await asked(server, { models: ['org/b:8b'] }).models).toEqual([{ model_id: 'org/b:8b', model: 'org/b:8b' }])
  expect(await asked(server, { models: ['a'] }, 'mine').models).toEqual([{ model_id: 'mine', model: 'a' }])
  await expect(asked(server, {}, 'mine').models).rejects.toThrow('--model-id names one model')
  await expect(asked(server, { models: ['c'] }).models).rejects.toThrow('serves no model c (--model), but a, org/b:8b')
})

it('waits for a server that is not there yet, and says so', async () => {
  const server = await plain()
  await server.close()
  const { events, models } = asked(server)
  await expect.poll(() => events.length).toBeGreaterThan(0)
  await server.listen()
  expect(await models).toHaveLength(1)
  expect(events[0]).toMatchObject({ event: 'server_down', reason: expect.stringMatching(/nothing answers .*--url/) })
})

it('a server that waiting does not help is told at once', async () => {
  const locked = await plain({ key: 'right' })
  await expect(asked(locked).models).rejects.toThrow('it asks for an API key: name the variable that has its key')
  const wrong = asked(locked, { api_key: 'wrong', key_variable: 'MY_KEY' }).models
  await expect(wrong).rejects.toThrow('it asks for another API key: put its key into the variable MY_KEY')
  const other = await plain()
  other.answer = (_, response) => void response.writeHead(404).end('no')
  await expect(asked(other).models).rejects.toThrow('it has no /v1/models (HTTP 404): correct --url')
})
