/** `npm run deploy -- --verify URL` against a running system, and against what can stand in a deployment's way. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type CommandOutcome, runCommand } from '../../lab/testbed/run-command.ts'
import { freePort } from '../../ops/system/free-port.ts'
import { System } from './support/system.ts'

const CHECKS = ['health', 'auth', 'engines', 'model', 'call', 'stream', 'program', 'batch', 'metrics']
let system: System
let proxy: Server

/** Answers as the system does, and holds each response back to its end. */
function bufferingProxy(): Server {
  return createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const headers = Object.fromEntries(
      Object.entries(request.headers).filter(
        ([name]) => !['host', 'connection', 'content-length', 'transfer-encoding'].includes(name),
      ),
    ) as Record<string, string>
    const body = ['GET', 'HEAD'].includes(request.method ?? '') ? null : Buffer.concat(chunks)
    const answer = await fetch(`${system.dev.url}${request.url}`, { method: request.method ?? 'GET', headers, body })
    const text = await answer.text()
    // A proxy that cuts a stream short.
    const cut = answer.headers.get('content-type')?.includes('event-stream')
      ? text.slice(0, text.lastIndexOf('data: '))
      : text
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? 'text/plain' }).end(cut)
  })
}

beforeAll(async () => {
  system = await System.start({ engine: 'emulated' })
  proxy = bufferingProxy()
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
})
afterAll(async () => {
  proxy?.close()
  await system?.remove()
})

function verify(url: string, env: Record<string, string> = {}): Promise<CommandOutcome> {
  const { apiKey, adminKey } = system.dev
  const keys = { SWITCHYARD_API_KEY: apiKey, SWITCHYARD_ADMIN_KEY: adminKey, METRICS_TOKEN: '', ...env }
  return runCommand('ops/deploy.ts', ['--verify', url], { env: keys })
}

/** Result and words of each check. */
function found({ stdout }: CommandOutcome): Record<string, [string, string]> {
  const lines = [...stdout.matchAll(/^(ok|FAILED|left out) +(\w+) +(.*)$/gm)]
  return Object.fromEntries(lines.map(([, result = '', check = '', detail = '']) => [check, [result, detail]]))
}

it('finds a running system well, part by part', async () => {
  const outcome = await verify(system.dev.url)
  expect(outcome).toMatchObject({ code: 0, stderr: '' })
  const all = found(outcome)
  expect(Object.keys(all)).toEqual(CHECKS)
  for (const check of CHECKS) expect(all[check]?.[0], outcome.stdout).toBe('ok')
  expect(all.call?.[1]).toMatch(/ from (us-east|eu-west)-1-e0: \d+ tokens, waited /)
  expect(all.stream?.[1]).toMatch(/^\d+ events, the first after \d+ ms$/)
  expect(all.engines?.[1]).toBe('2 of 2 engines are ready in 2 pools')
  for (const secret of [system.dev.apiKey, system.dev.adminKey]) expect(outcome.stdout).not.toContain(secret)
})

it('leaves out what it has no key for, and says which variable has it', async () => {
  const outcome = await verify(system.dev.url, { SWITCHYARD_API_KEY: '', SWITCHYARD_ADMIN_KEY: '' })
  expect(outcome.code).toBe(0)
  const all = found(outcome)
  expect(all.auth?.[0]).toBe('ok')
  expect(all.call).toEqual(['left out', expect.stringContaining('SWITCHYARD_API_KEY')])
  expect(all.engines).toEqual(['left out', expect.stringContaining('SWITCHYARD_ADMIN_KEY')])
})

it('tells a key that is refused, and leaves out what needs it', async () => {
  const outcome = await verify(system.dev.url, { SWITCHYARD_API_KEY: 'sk-sy-wrong' })
  expect(outcome.code).toBe(1)
  const all = found(outcome)
  expect(all.model?.[0]).toBe('FAILED')
  expect(all.call).toEqual(['left out', 'it needs model'])
  expect(all.metrics?.[0]).toBe('ok')
})

it('tells a proxy that cuts streams', async () => {
  const outcome = await verify(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}`)
  expect(outcome.code).toBe(1)
  expect(found(outcome).stream).toEqual(['FAILED', expect.stringContaining('Does a proxy cut responses?')])
})

it('exits with 3 where nothing answers, and 2 for what is no URL', async () => {
  expect((await verify(`http://127.0.0.1:${await freePort()}`)).code).toBe(3)
  expect((await verify('switchyard.example.com')).code).toBe(2)
})
