/** The system under test: started as a user starts it, with two tenants that have something to lose, and an enrolled agent that means harm. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { z } from 'zod'
import { freePort } from '../../../ops/system/free-port.ts'
import { runCommand, runCommandOrThrow } from '../../testbed/run-command.ts'
import { type ApiDocument, readDocument } from './document.ts'
import type { Target } from './draw-request.ts'
import { type Kind, KnownIds } from './known-ids.ts'
import { APPLICATION_NODE } from './request-bodies.ts'
import type { Secrets } from './tally.ts'

const REGION = 'us-east'
const HOSTILE_AGENT = 'hostile-agent'
const UP_TIMEOUT_MS = 170_000
const SIGNALS = ['SIGINT', 'SIGTERM'] as const
const HEALTHY_MS_MAX = 60_000

const Dev = z.object({ url: z.string(), apiKey: z.string(), adminKey: z.string(), model: z.string() })
const StoredSecrets = z.object({
  keyPepper: z.string(),
  ticketSecret: z.string(),
  agentTokens: z.record(z.string(), z.string()),
})

export interface FuzzedSystem {
  url: string
  target: Target
  document: ApiDocument
  ids: KnownIds
  secrets: Secrets
  /** Null: `npm run status` says that all is well, and a call is served. Otherwise what is not. */
  unhealthy(): Promise<string | null>
  removeHostileAgent(): Promise<void>
  /** Ends it. `is_kept`: its folder with logs and state stays. */
  remove(options?: { is_kept: boolean }): Promise<void>
  folder: string
}

export async function startFuzzedSystem(): Promise<FuzzedSystem> {
  const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-fuzz-'))
  // It runs in processes of its own, which would outlive this one.
  const stop = (): void => void remove().then(() => process.exit(1))
  let removing: Promise<void> | null = null
  const remove = (options = { is_kept: false }): Promise<void> => {
    removing ??= end(options)
    return removing
  }
  const end = async ({ is_kept }: { is_kept: boolean }): Promise<void> => {
    await runCommand('ops/down.ts', ['--data-dir', folder], { timeout_ms: UP_TIMEOUT_MS })
    if (!is_kept) rmSync(folder, { recursive: true, force: true })
    for (const signal of SIGNALS) process.off(signal, stop)
  }
  // A second signal, which npm passes on beside the terminal's own, does not cut the end short.
  for (const signal of SIGNALS) process.on(signal, stop)
  try {
    const flags = ['--port', `${await freePort()}`, '--data-dir', folder, '--engine', 'emulated', '--regions', REGION]
    await runCommandOrThrow('ops/up.ts', [...flags, '--detach'], { timeout_ms: UP_TIMEOUT_MS })
    return await describe(folder, remove)
  } catch (error) {
    await remove()
    throw error
  }
}

async function describe(folder: string, remove: FuzzedSystem['remove']): Promise<FuzzedSystem> {
  const { url, apiKey, adminKey, model } = Dev.parse(JSON.parse(readFileSync(path.join(folder, 'dev.json'), 'utf8')))
  const stored = StoredSecrets.parse(JSON.parse(readFileSync(path.join(folder, 'secrets.json'), 'utf8')))
  const ask = async (route: string, key: string, body?: object, method = body === undefined ? 'GET' : 'POST') => {
    const is_form = body instanceof FormData
    const type = is_form ? {} : { 'content-type': 'application/json' }
    const headers = { authorization: `Bearer ${key}`, ...type }
    const sent = body === undefined ? {} : { body: is_form ? body : JSON.stringify(body) }
    const init = { method, headers, ...sent }
    const answer = await fetch(`${url}${route}`, init)
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${route}: ${answer.status} ${text}`)
    return JSON.parse(text) as Record<string, unknown>
  }
  const { id: other } = await ask('/admin/v1/tenants', adminKey, { name: 'other' })
  const { key: otherKey, id: otherKeyId } = await ask(`/admin/v1/tenants/${other}/keys`, adminKey, { name: 'other' })
  const { token } = await ask('/admin/v1/agents', adminKey, { id: HOSTILE_AGENT, region: REGION })
  const secret = `known-to-the-other-tenant-${Math.random().toString(36).slice(2)}`
  const foreign = await fill((route, body) => ask(route, `${otherKey}`, body), model, secret)
  const own = await fill((route, body) => ask(route, apiKey, body), model, 'own')
  const admin = {
    tenant: ['local', `${other}`],
    class: ['tenant'],
    region: [REGION],
    model: [model],
    agent: [`${REGION}-1`],
    node: [APPLICATION_NODE],
  }
  const keys = [stored.keyPepper, stored.ticketSecret, ...Object.values(stored.agentTokens), apiKey, adminKey]
  const call = { model, max_tokens: 2, messages: [{ role: 'user', content: 'Hello' }] }
  return {
    url,
    target: { model, region: REGION, agent: HOSTILE_AGENT, keys: { apiKey, adminKey, agentToken: `${token}` } },
    document: readDocument(await ask('/openapi.json', adminKey)),
    ids: new KnownIds({ ...own, ...admin }, { ...foreign, key: [`${other}/${otherKeyId}`] }),
    secrets: { keys: [...keys, `${otherKey}`, `${token}`], foreign: [secret] },
    removeHostileAgent: async () => {
      await ask(`/admin/v1/agents/${HOSTILE_AGENT}`, adminKey, undefined, 'DELETE')
    },
    unhealthy: async () => {
      const until_ms = performance.now() + HEALTHY_MS_MAX
      for (;;) {
        const status = await runCommand('ops/status.ts', ['--data-dir', folder], { timeout_ms: HEALTHY_MS_MAX })
        const served = await ask('/v1/chat/completions', apiKey, call).then(
          () => null,
          (error: Error) => error.message,
        )
        if (status.code === 0 && served === null) return null
        if (performance.now() > until_ms) return `${status.stdout}${status.stderr}\n${served ?? ''}`
        await new Promise((resolve) => setTimeout(resolve, 1_000))
      }
    },
    remove,
    folder,
  }
}

/** A program with a call, a stored response, a conversation, a file, a batch and an application, which all have `secret`. */
async function fill(
  ask: (route: string, body: object) => Promise<Record<string, unknown>>,
  model: string,
  secret: string,
): Promise<Partial<Record<Kind, string[]>>> {
  // Names are easy to guess, also those of another tenant.
  const program = `program-${secret === 'own' ? 1 : 2}`
  await ask('/v1/programs', { id: program, app: secret, metadata: { note: secret } })
  const messages = [{ role: 'user', content: secret }]
  await ask('/v1/chat/completions', { model, max_tokens: 2, messages, metadata: { program_id: program } })
  const { id: response } = await ask('/v1/responses', {
    model,
    max_output_tokens: 16,
    input: secret,
    metadata: { note: secret },
  })
  const items = [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: secret }] }]
  const { id: conversation } = await ask('/v1/conversations', { items, metadata: { note: secret } })
  const form = new FormData()
  const body = { model, max_tokens: 2, messages }
  const line = { custom_id: secret, method: 'POST', url: '/v1/chat/completions', body }
  form.set('purpose', 'batch')
  form.set('file', new Blob([`${JSON.stringify(line)}\n`]), `${secret}.jsonl`)
  const { id: file } = await ask('/v1/files', form)
  const { id: batch } = await ask('/v1/batches', {
    ...{ input_file_id: file, endpoint: '/v1/chat/completions', completion_window: '24h' },
    metadata: { note: secret },
  })
  const { id: application } = await ask('/v1/applications', {
    ...{ name: secret, input: { lines: [{ question: secret }] } },
    nodes: [{ id: APPLICATION_NODE, model, requests: 'lines', body: { messages, max_tokens: 2 } }],
  })
  const held = { program, response, conversation, file, batch, application }
  return Object.fromEntries(Object.entries(held).map(([kind, id]) => [kind, [`${id}`]]))
}
