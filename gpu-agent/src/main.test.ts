import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import type { AgentEvent } from './events.ts'
import { HELP, TOKEN_VARIABLE } from './options.ts'
import { type ControlPlaneStandIn, TOKEN } from './testing/control-plane-stand-in.ts'
import { startControlPlane, temporaryFolder, until } from './testing/harness.ts'

interface Run {
  child: ChildProcess
  events: AgentEvent[]
  ended: Promise<{ code: number | null; stdout: string; stderr: string }>
}

function run(...argv: string[]): Run {
  const main = fileURLToPath(new URL('./main.ts', import.meta.url))
  const env = { ...process.env, [TOKEN_VARIABLE]: TOKEN }
  const child = spawn(process.execPath, [main, ...argv], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const events: AgentEvent[] = []
  let stdout = ''
  let stderr = ''
  createInterface({ input: child.stdout }).on('line', (line) => {
    stdout += `${line}\n`
    if (line.startsWith('{')) events.push(JSON.parse(line))
  })
  child.stderr.on('data', (part) => {
    stderr += part
  })
  const ended = new Promise<{ code: number | null; stdout: string; stderr: string }>((resolve) =>
    child.on('close', (code) => resolve({ code, stdout, stderr })),
  )
  return { child, events, ended }
}

/** A call that takes about a second of the emulated engine's time. */
const BODY = JSON.stringify({ model: 'test-model', max_tokens: 64, messages: [{ role: 'user', content: 'hello' }] })

async function started(control: ControlPlaneStandIn, ...argv: string[]) {
  const flags = ['--id', 'a', '--region', 'here', '--control-url', control.url, '--engine', 'emulated']
  const process = run(...flags, '--model-id', 'test-model', '--data-dir', temporaryFolder(), ...argv)
  await until(() => process.events.some(({ event }) => event === 'linked' || event === 'failed'))
  const ready = process.events.find((event) => event.event === 'ready')
  const epoch = ready?.engines[0]?.epoch
  if (ready === undefined || epoch === undefined) throw new Error(JSON.stringify(process.events))
  const post = async (): Promise<Response> => {
    const headers = { authorization: `Bearer ${await control.ticket({ epoch })}` }
    return fetch(`${ready.url}/v1/chat/completions`, { method: 'POST', headers, body: BODY })
  }
  return { ...process, ready, post }
}

test('--help is printed and wrong flags exit with 2 and one sentence', async () => {
  const [help, wrong] = await Promise.all([run('--help').ended, run('--id', 'a', '--region', 'r').ended])
  expect(help).toEqual({ code: 0, stdout: HELP, stderr: '' })
  expect(wrong).toEqual({ code: 2, stdout: '', stderr: 'gpu-agent: --control-url is required\nSee --help.\n' })
})

test('SIGTERM lets a call end, sends its record and exits with 0; nothing secret is printed', async () => {
  const control = await startControlPlane()
  const agent = await started(control)
  expect(agent.ready).toMatchObject({ agent: 'a', region: 'here', engines: [{ id: 'a-e0', model: 'test-model' }] })
  const response = await agent.post()
  expect(response.status).toBe(200)
  agent.child.kill('SIGTERM')
  expect(await response.text()).toContain('data: [DONE]')
  const { code, stdout } = await agent.ended
  expect(code).toBe(0)
  expect(control.records).toEqual([expect.objectContaining({ outcome: 'completed' })])
  expect(stdout).not.toContain(TOKEN)
})

test('a second signal ends at once', async () => {
  const control = await startControlPlane()
  // Records that are never acknowledged hold a drain up for its full flush limit.
  control.answer = () => ({ status: 503, body: {} })
  const agent = await started(control)
  await (await agent.post()).text()
  agent.child.kill('SIGTERM')
  await until(() => agent.events.some(({ event }) => event === 'draining'))
  agent.child.kill('SIGTERM')
  expect((await agent.ended).code).toBe(143)
})

test('a signal during the start ends at once: no call is served yet', async () => {
  const control = await startControlPlane()
  const folder = temporaryFolder()
  const model = join(folder, 'damaged.gguf')
  // Promises more entries than any file has, and the loader reads on for them.
  const header = Buffer.alloc(4096)
  header.write('GGUF')
  header.writeUInt32LE(3, 4)
  header.writeBigUInt64LE(2n ** 40n, 8)
  header.writeBigUInt64LE(2n ** 40n, 16)
  writeFileSync(model, header)
  const flags = ['--id', 'a', '--region', 'here', '--control-url', control.url, '--engine', 'embedded']
  const starting = run(...flags, '--model-path', model, '--data-dir', join(folder, 'data'))
  await until(() => existsSync(join(folder, 'data')))
  starting.child.kill('SIGTERM')
  expect((await starting.ended).code).toBe(143)
})

test('a start that fails says at which stage and exits with 1', async () => {
  const control = await startControlPlane()
  const { port } = new URL(control.url)
  const flags = ['--id', 'a', '--region', 'here', '--control-url', control.url, '--engine', 'emulated']
  const { code, stdout } = await run(...flags, '--listen', `127.0.0.1:${port}`, '--data-dir', temporaryFolder()).ended
  expect(code).toBe(1)
  expect(JSON.parse(stdout.trim().split('\n').at(-1) ?? '')).toMatchObject({ event: 'failed', stage: 'listen' })
})

test('an agent that the control plane refuses for good says why and exits with 78', { timeout: 120_000 }, async () => {
  const control = await startControlPlane()
  control.refuse_link = 401
  control.refusal_body = JSON.stringify({ error: { message: 'The token is not known.', code: 'invalid_agent_token' } })
  const flags = ['--id', 'a', '--region', 'here', '--control-url', control.url, '--engine', 'emulated']
  const agent = run(...flags, '--model-id', 'test-model', '--data-dir', temporaryFolder())
  expect((await agent.ended).code).toBe(78)
  const reason = 'status 401 invalid_agent_token: The token is not known.'
  expect(agent.events.filter(({ event }) => event === 'link_lost')).toMatchObject(Array(3).fill({ reason }))
  const message = `${control.url} refuses the agent a (${reason}). Check --token-file, --region and --model-id, then start it again.`
  expect(agent.events).toContainEqual(expect.objectContaining({ event: 'failed', stage: 'link', message }))
})
