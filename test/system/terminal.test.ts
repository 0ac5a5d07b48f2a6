/** What a tenant types to watch its programs and to end one: `switchyard ps`, `top`, `why`, `kill` and `env`. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type CommandOutcome, runCommand } from '../../lab/testbed/run-command.ts'
import { eventually, System } from './support/system.ts'

const MODEL = 'emulated-8b'
let system: System

beforeAll(async () => {
  system = await System.start({ engine: 'emulated', flags: ['--regions', 'us-east'] })
})
afterAll(async () => {
  await system.remove()
})

function switchyard(...args: string[]): Promise<CommandOutcome> {
  const env = {
    SWITCHYARD_URL: system.dev.url,
    SWITCHYARD_API_KEY: system.dev.apiKey,
    SWITCHYARD_ADMIN_KEY: system.dev.adminKey,
  }
  return runCommand('ops/switchyard/main.ts', args, { env })
}

function chat(program: string, body: object): Promise<Response> {
  return system.fetch('/v1/chat/completions', {
    method: 'POST',
    headers: { 'X-Program-Id': program, 'X-App': 'terminal' },
    body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'go' }], ...body }),
  })
}

it('ps and top show a program that runs, why explains its call', async () => {
  await (await chat('watched', { max_tokens: 4 })).text()
  const listed = await eventually('its record has come', async () => {
    const { stdout } = await switchyard('--json', 'ps')
    const row = (JSON.parse(stdout) as { id: string; service_s: number }[]).find(({ id }) => id === 'watched')
    return (row?.service_s ?? 0) > 0 ? row : undefined
  })
  expect(listed).toMatchObject({ id: 'watched', state: 'running', calls: 1 })
  const top = await switchyard('top', '--filter', 'watched')
  expect(top.stdout).toMatch(/^\d+ programs: 0 reasoning, \d+ acting/)
  expect(top.stdout).toMatch(/^watched +terminal +acting +0 +1 /m)
  const why = await switchyard('why', 'watched')
  expect(why.stdout).toContain('Program watched (')
  expect(why.stdout).toMatch(/It was sent to engine \S+ in us-east, because /)
  expect(why.stdout).toContain('It ended as completed')
  const json = JSON.parse((await switchyard('why', 'watched', '--json')).stdout) as { explanation: string[] }
  // The first sentence has a time that goes on.
  expect(json.explanation.slice(1)).toEqual(why.stdout.trim().split('\n').slice(1))
})

it('kill ends a program, whose stream says so', async () => {
  const answer = await chat('doomed', { max_tokens: 3000, stream: true, ignore_eos: true })
  const text = answer.text()
  await eventually('it is served', async () => {
    const { stdout } = await switchyard('ps', '--json')
    return (JSON.parse(stdout) as { id: string }[]).some(({ id }) => id === 'doomed') || undefined
  })
  expect(JSON.parse((await switchyard('kill', 'doomed', '--json')).stdout)).toMatchObject({ state: 'ended' })
  expect(await text).toContain('program_ended')
  expect((await switchyard('ps')).stdout).not.toContain('doomed')
  expect((await switchyard('ps', '--all')).stdout).toContain('doomed')
})

it('env gives a shell what clients need', async () => {
  const { stdout } = await switchyard('env')
  const script = `${stdout}\ncurl -s -H "Authorization: Bearer $KEY" "$OPENAI_BASE_URL/models"`
  const asked = await promisify(execFile)('sh', ['-c', script])
  expect(JSON.parse(asked.stdout)).toMatchObject({ data: [{ id: MODEL }] })
})

it('what cannot be done is said, with an exit code', async () => {
  const absent = await switchyard('why', 'nobody')
  expect(absent).toMatchObject({ code: 1, stderr: expect.stringContaining('There is no program "nobody"') })
  expect(await switchyard('kill')).toMatchObject({ code: 2, stderr: expect.stringContaining('it takes PROGRAM') })
  expect(await switchyard('top', '--sort', 'size')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--sort takes one of service'),
  })
  expect(await switchyard('why', 'watched', '--call', 'none')).toMatchObject({ code: 1 })
})

it('plan says how many engines the programs that ended here would need', async () => {
  await (await chat('planned', { max_tokens: 4 })).text()
  await system.fetch('/v1/programs/planned', { method: 'DELETE' })
  const asked = ['plan', '--since', '1h', '--p95-s', '1000', '--profile', 'emulated-8b', '--gpu-cost', '2.5']
  const plan = await eventually('it is in the archive', async () => {
    const { stdout } = await switchyard(...asked, '--json')
    return stdout === '' ? undefined : (JSON.parse(stdout) as { served: object; candidates: object[] })
  })
  expect(plan.candidates).toMatchObject([{ profile: 'emulated-8b', policy: 'plas', fewest_engines: 1 }])
  const { stdout } = await switchyard(...asked)
  expect(stdout).toMatch(/^1 engine of emulated-8b with plas and cost-aware meets a p95 of 1000\.0 s/m)
  const none = await switchyard('plan', '--since', '1h')
  expect(none.stderr).toContain('say what is to be met')
})
