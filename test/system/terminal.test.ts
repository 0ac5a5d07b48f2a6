/** What a tenant types to watch its programs and to end one: `switchyard ps`, `top`, `why`, `kill`, `nice` and `env`; and `status`, `logs`, `apply`. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ROOT } from '../../lab/testbed/repository.ts'
import { type CommandOutcome, runCommand } from '../../lab/testbed/run-command.ts'
import { freePort } from '../../ops/system/free-port.ts'
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

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

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
  const fcfs = await switchyard('why', 'watched', '--fcfs')
  expect(fcfs.stdout).toMatch(
    /Under first come, first served 1 call would have waited (about|at least) [\d.]+ s instead/,
  )
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
  expect((await switchyard('kill', 'doomed')).stdout).toMatch(
    /^Program doomed ended at \S+, after 1 call\. Calls that were open are cancelled\.\n$/,
  )
  expect((await switchyard('ps')).stdout).not.toContain('doomed')
  expect((await switchyard('ps', '--all')).stdout).toContain('doomed')
})

it('nice changes what a program and a class weigh, and why tells it', async () => {
  await (await chat('favoured', { max_tokens: 4 })).text()
  expect(JSON.parse((await switchyard('nice', 'favoured', '2.5', '--json')).stdout)).toMatchObject({ weight: 2.5 })
  expect((await switchyard('why', 'favoured')).stdout).toContain('It weighs 2.5 among the tenant’s own programs.')
  expect((await switchyard('nice', 'favoured', '2')).stdout).toBe(
    'Program favoured weighs 2 among the tenant’s own programs, from its next call on.\n',
  )
  expect((await switchyard('nice', 'app:terminal', '2', '--class')).stdout).toBe(
    'Programs of class app:terminal weigh 2 among the tenant’s own. Calls see it within 10 s.\n',
  )
  const of_class = await switchyard('nice', 'app:terminal', '0.5', '--class', '--json')
  expect(JSON.parse(of_class.stdout)).toMatchObject({ class: 'app:terminal', weight: 0.5 })
  expect(await switchyard('nice', 'favoured', 'much')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('WEIGHT is a number'),
  })
  expect(await switchyard('nice', 'favoured', '101')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('WEIGHT is a number from 0.01 to 100'),
  })
  expect(await switchyard('nice', 'nobody', '2')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('No program "nobody" is running'),
  })
})

it('status shows the keys only where it is asked to', async () => {
  const here = ['--data-dir', system.dataDir]
  const { apiKey, adminKey } = system.dev
  const shown = await switchyard('status', '--show-key', ...here)
  expect(shown.stdout).toContain(apiKey)
  expect(shown.stdout).toContain(adminKey)
  const hidden = [await switchyard('status', ...here), await switchyard('status', '--json', ...here)]
  for (const { stdout } of hidden) {
    expect(stdout).toContain(system.dev.url)
    expect(stdout).not.toContain(apiKey)
    expect(stdout).not.toContain(adminKey)
  }
})

it('logs shows what every process has written, filtered, and goes on with it', async () => {
  const here = ['--data-dir', system.dataDir]
  const lines = async (...args: string[]) =>
    JSON.parse((await switchyard('logs', '--json', ...args, ...here)).stdout) as { source: string; text: string }[]
  const all = await lines('--limit', '1000')
  expect([...new Set(all.map(({ source }) => source))].sort()).toEqual(['control-plane', 'up', 'us-east-1'])
  expect((await lines('--source', 'us-east-1')).map(({ text }) => text)).toContain('linked')
  expect(await lines('--level', 'error')).toEqual([])
  expect((await switchyard('logs', '--program', 'watched', ...here)).stdout).toContain('LOG_LEVEL=info')
  const follow = ['logs', '--follow', '--limit', '1', ...here]
  const following = spawn(process.execPath, [path.join(ROOT, 'ops/switchyard/main.ts'), ...follow], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  following.stdout.on('data', (chunk: Buffer) => {
    text += chunk.toString()
  })
  await eventually('it shows the last line', () => text.includes('\n') || undefined)
  appendFileSync(path.join(system.dataDir, 'logs', 'other.log'), '{"event":"late","level":"warn"}\n')
  await eventually('it shows a line of a new process', () => text.includes('other late') || undefined)
  const ended = once(following, 'exit')
  following.kill('SIGINT')
  expect(await ended).toEqual([0, null])
})

it('up --json tells address and keys in one line', async () => {
  const dataDir = mkdtempSync(path.join(tmpdir(), 'switchyard-up-json-'))
  const other = new System(dataDir, await freePort(), 'emulated', ['--json', '--regions', 'us-east'])
  try {
    const { stdout } = await other.up()
    const { took_s, ...told } = JSON.parse(stdout) as { took_s: number }
    expect([typeof took_s, told]).toEqual(['number', other.dev])
  } finally {
    await other.remove()
  }
})

it('demo --json writes figures of its programs, and nothing else', async () => {
  const done = await runCommand('ops/demo/main.ts', ['--json', '--data-dir', system.dataDir])
  expect(done.code, done.stderr).toBe(0)
  const { programs } = JSON.parse(done.stdout) as { programs: { kind: string; outcome: string }[] }
  expect(programs.map(({ kind, outcome }) => [kind, outcome])).toEqual([
    ['chat', 'done'],
    ['react', 'done'],
    ['tree', 'done'],
  ])
})

it('completes in bash what it is asked for', async () => {
  const program = path.join(ROOT, 'ops/switchyard/main.ts')
  const script = [
    `switchyard() { ${quoted(process.execPath)} ${quoted(program)} "$@"; }`,
    'source <(switchyard completion bash)',
    'ask() { COMP_WORDS=(switchyard "$@"); COMP_CWORD=$#; _switchyard; echo "$COMPREPLY"; }',
    'ask ni; ask keys re; ask top --so',
  ].join('\n')
  const { stdout } = await promisify(execFile)('bash', ['-c', script])
  expect(stdout).toBe('nice\nrevoke\n--sort\n')
})

it('apply makes what a file says, once', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-apply-'))
  const file = path.join(folder, 'switchyard.yaml')
  const tenants = '[{ id: acme, name: Acme, weight: 2, class_weights: { nightly: 0.5 }, keys: [{ name: laptop }] }]'
  writeFileSync(file, `regions: [{ id: eu, position: 3 }]\nagents: [{ id: eu-1, region: eu }]\ntenants: ${tenants}\n`)
  const apply = (...args: string[]) => {
    const env = { SWITCHYARD_URL: system.dev.url, SWITCHYARD_ADMIN_KEY: system.dev.adminKey }
    return runCommand('ops/switchyard/main.ts', ['apply', '-f', file, ...args], { env })
  }
  const planned = JSON.parse((await apply('--dry-run', '--json')).stdout) as { changes: unknown[] }
  expect(planned).toMatchObject({ applied: 0, made: [] })
  expect(planned.changes).toContainEqual(expect.objectContaining({ action: 'create', object: 'tenant acme' }))
  const shown = await apply('--dry-run')
  expect(shown.stdout).toContain('+ tenant acme\n    id: acme\n    name: Acme\n    weight: 2')
  expect(await apply()).toMatchObject({ code: 2, stderr: expect.stringContaining('--yes makes these changes') })
  const done = await apply('--yes', '--json')
  expect(done.code, done.stderr).toBe(0)
  const { made } = JSON.parse(done.stdout) as { made: { object: string; key?: string; token?: string }[] }
  expect(made.map(({ object }) => object)).toEqual(['agent eu-1', 'key acme/laptop'])
  const models = await system.fetch('/v1/models', { apiKey: made[1]?.key ?? '' })
  expect(models.status).toBe(200)
  expect((await apply('--yes')).stdout).toBe(`Nothing to change: all is as ${file} says.\n`)
  expect(JSON.parse((await apply('--yes', '--json')).stdout)).toEqual({ changes: [], applied: 0, made: [] })
  writeFileSync(file, 'tenants: [{ id: acme, weight: 3, disabled: true }]\n')
  expect((await apply('--yes')).stdout).toContain('weight: 2 → 3')
  expect((await apply('--dry-run')).stdout).toContain('Nothing to change')
  writeFileSync(file, 'tenants:\n  - id: acme\n    wieght: 3\n')
  expect(await apply('--yes')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(':3: tenants[0] has no field'),
  })
  rmSync(folder, { recursive: true })
})

it('env gives a shell what clients need', async () => {
  const variables = JSON.parse((await switchyard('env', '--json')).stdout)
  expect(variables).toMatchObject({ KEY: system.dev.apiKey, OPENAI_BASE_URL: `${system.dev.url}/v1` })
  const { stdout } = await switchyard('env')
  const script = `${stdout}\ncurl -s -H "Authorization: Bearer $KEY" "$OPENAI_BASE_URL/models"`
  const asked = await promisify(execFile)('sh', ['-c', script])
  expect(JSON.parse(asked.stdout)).toMatchObject({ data: [{ id: MODEL }] })
})

it('uses the keys of the system that runs here with its own address alone', async () => {
  const spend = (SWITCHYARD_URL: string) => {
    const env = { SWITCHYARD_URL, SWITCHYARD_API_KEY: system.dev.apiKey }
    return runCommand('ops/switchyard/main.ts', ['spend', '--data-dir', system.dataDir], { env })
  }
  expect(await spend(system.dev.url)).toMatchObject({ code: 0 })
  const elsewhere = await spend('http://127.0.0.1:9')
  expect(elsewhere).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('no key was given: give one with --admin-key'),
  })
})

it('what cannot be done is said, with an exit code', async () => {
  const absent = await switchyard('why', 'nobody')
  expect(absent).toMatchObject({ code: 1, stderr: expect.stringContaining('There is no program "nobody"') })
  expect(await switchyard('kill')).toMatchObject({ code: 2, stderr: expect.stringContaining('PROGRAM is missing') })
  expect(await switchyard('top', '--sort', 'size')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--sort takes one of service'),
  })
  expect(await switchyard('why', 'watched', '--call', 'none')).toMatchObject({ code: 1 })
  expect(absent.stderr).toContain('`switchyard ps --all` lists the tenant’s programs')
  const other = await switchyard('ps', '--api-key', 'sk-sy-wrong')
  expect(other).toMatchObject({ code: 1, stderr: expect.stringContaining('Give another with --api-key') })
  const nowhere = await runCommand('ops/switchyard/main.ts', ['ps', '--data-dir', path.join(tmpdir(), 'no-system')])
  expect(nowhere).toMatchObject({ code: 2, stderr: expect.stringContaining('`npm run up` starts a system here') })
  const unreachable = await switchyard('ps', '--url', `http://127.0.0.1:${await freePort()}`)
  expect(unreachable).toMatchObject({ code: 3, stderr: expect.stringContaining('`switchyard status` shows what runs') })
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
