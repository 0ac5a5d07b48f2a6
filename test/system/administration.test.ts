/**
 * An operator at the command line against a running system with two regions: a tenant from its making to its revoked key,
 * an agent drained and undrained, a program that may not leave its region, limits, and an agent that is removed.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type CommandOutcome, runCommand } from '../../lab/testbed/run-command.ts'
import { eventually, System } from './support/system.ts'

const MODEL = 'emulated-8b'
let system: System

beforeAll(async () => {
  system = await System.start({ engine: 'emulated' })
})
afterAll(async () => {
  await system.remove()
})

/** `npx switchyard …`: the bin's own file, under this Node. */
function cli(...args: string[]): Promise<CommandOutcome> {
  const { url, adminKey } = system.dev
  const env = { SWITCHYARD_URL: url, SWITCHYARD_ADMIN_KEY: adminKey }
  return runCommand('ops/switchyard/main.ts', args, { env })
}

async function done<T = Record<string, unknown>>(...args: string[]): Promise<T> {
  const { code, stdout, stderr } = await cli(...args, '--json')
  expect(code, stderr).toBe(0)
  return JSON.parse(stdout) as T
}

function call(apiKey: string, headers: Record<string, string> = {}): Promise<Response> {
  const messages = [{ role: 'user', content: 'hello' }]
  const body = JSON.stringify({ model: MODEL, messages, max_tokens: 2 })
  return system.fetch('/v1/chat/completions', { method: 'POST', apiKey, headers, body })
}

async function regionOf(response: Promise<Response>): Promise<string | null> {
  const answered = await response
  await answered.text()
  expect(answered.status).toBe(200)
  return answered.headers.get('x-region')
}

const codeOf = async (response: Response) => ((await response.json()) as { error: { code: string } }).error.code

it('makes a tenant and a key, which works, is revoked, and is refused within 10 s', async () => {
  await done('tenants', 'create', '--id', 'acme', '--name', 'Acme', '--weight', '2')
  const shown = await cli('keys', 'create', 'acme', '--name', 'laptop')
  const key = /^sk-sy-[0-9A-Za-z]{48}$/m.exec(shown.stdout)?.[0] ?? ''
  expect(await regionOf(call(key, { 'x-program-id': 'first' }))).not.toBeNull()
  const [listed] = await done<{ id: string; name: string }[]>('keys', 'list', 'acme')
  expect(listed).toMatchObject({ name: 'laptop', revoked_at: null })
  expect(await done<{ id: string }[]>('programs', 'list', 'acme')).toMatchObject([{ id: 'first' }])
  expect(await done<object[]>('calls', 'list', 'acme', 'first')).toMatchObject([{ outcome: 'completed' }])
  await regionOf(call(key, { 'x-program-id': 'over' }))
  expect((await system.fetch('/v1/programs/over', { method: 'DELETE', apiKey: key })).status).toBe(200)
  await eventually('the ended program is listed behind the running one', async () => {
    const programs = await done<{ id: string; state: string }[]>('programs', 'list', 'acme')
    return (
      JSON.stringify(programs.map(({ id, state }) => [id, state])) === '[["first","running"],["over","ended"]]' ||
      undefined
    )
  })
  for (const secret of [
    ['keys', 'revoke', 'acme', key],
    ['tenants', 'create', '--name', key],
    ['tenants', '--admin-key', `${key}\n…`],
    ['tenants', '--url', `http://${key}@127.0.0.1:1`],
  ]) {
    const { code, stdout, stderr } = await cli(...secret)
    expect([code, stdout, stderr.includes(key)], stderr).toEqual([2, '', false])
  }
  const held = await done('keys', 'set', 'acme', listed?.id ?? '', '--models', MODEL, '--regions', 'any')
  expect(held).toMatchObject({ name: 'laptop', models: [MODEL], regions: null })
  await done('keys', 'revoke', 'acme', listed?.id ?? '')
  await eventually(
    'the revoked key is refused',
    async () => ((await call(key)).status === 401 ? true : undefined),
    10_500,
  )
  const everything = [await cli('audit', 'list'), await cli('keys', 'list', 'acme'), await cli('tenants')]
  expect(everything.map(({ stdout }) => stdout).join()).not.toContain(key)
  const audit = await done<{ action: string }[]>('audit', 'list')
  expect(audit.map(({ action }) => action)).toEqual(['key.revoke', 'key.update', 'key.create', 'tenant.create'])
})

it('tells what calls were charged, to the operator of each tenant and to a tenant of its own', async () => {
  await done('models', 'update', MODEL, '--prompt-price', '1', '--output-price', '2')
  await done('tenants', 'create', '--id', 'spender', '--name', 'Spender')
  const { key = '', id } = await done<{ key: string; id: string }>('keys', 'create', 'spender', '--name', 'one')
  type Row = { tenant?: string; name: string | null; period: string; calls: number; cost: string; cost_nanos: number }
  const own = async (...args: string[]): Promise<Row[]> => {
    const env = { SWITCHYARD_URL: system.dev.url, SWITCHYARD_API_KEY: key }
    const { code, stdout, stderr } = await runCommand('ops/switchyard/main.ts', ['spend', 'own', ...args, '--json'], {
      env,
    })
    expect(code, stderr).toBe(0)
    return JSON.parse(stdout) as Row[]
  }
  expect(await own()).toEqual([])
  // Isolates keep the catalogue for some seconds, so the first calls may have had no price.
  const [program] = await eventually('a program was charged money', async () => {
    await regionOf(call(key, { 'x-program-id': 'charged' }))
    const rows = await own('--by', 'program')
    return (rows[0]?.cost_nanos ?? 0) > 0 ? rows : undefined
  })
  const today = new Date().toISOString().slice(0, 10)
  expect(program).toMatchObject({ name: 'charged', period: today })
  const { calls, cost_nanos, cost } = await eventually('every call is charged', async () => {
    const [row] = await own()
    const { open_calls, calls: made } = (await (
      await system.fetch('/v1/programs/charged', { apiKey: key })
    ).json()) as { open_calls: number; calls: number }
    return open_calls === 0 && row?.calls === made ? row : undefined
  })
  expect(cost).toBe(`0.${String(cost_nanos).padStart(9, '0')}`)
  expect(await own('--by', 'key', '--per', 'month')).toMatchObject([{ name: id, period: today.slice(0, 7), calls }])
  expect(await done<Row[]>('spend', '--tenant', 'spender', '--by', 'model')).toMatchObject([
    { name: MODEL, period: today, calls, cost_nanos },
  ])
  const each = await done<Row[]>('spend')
  expect(each.find(({ tenant }) => tenant === 'spender')).toMatchObject({ calls, cost_nanos })
  const shown = await cli('spend', '--tenant', 'spender', '--by', 'key')
  expect(shown.stdout).toMatch(new RegExp(`^${today}\\s+${id}\\s+${calls}\\s.*\\s${cost}$`, 'm'))
  expect(await cli('spend', '--by', 'key')).toMatchObject({ code: 2 })
})

it('drains an agent, to which nothing goes any more, and undrains it', async () => {
  const { apiKey } = system.dev
  const east = await regionOf(call(apiKey, { 'x-program-regions': 'us-east' }))
  expect(east).toBe('us-east')
  expect(await done('agents', 'drain', 'us-east-1')).toMatchObject({ state: 'draining', pools_told: 1 })
  const engines = await done<{ agent: string; state: string }[]>('pools', 'engines')
  expect(engines.find(({ agent }) => agent === 'us-east-1')?.state).toBe('draining')
  for (let i = 0; i < 6; i += 1) expect(await regionOf(call(apiKey))).toBe('eu-west')
  await done('agents', 'undrain', 'us-east-1')
  await eventually('calls go there again', async () =>
    (await regionOf(call(apiKey))) === 'us-east' ? true : undefined,
  )
})

describe('a program that is held to a region', () => {
  it('is answered 503 where the region has no engine, though another is idle', async () => {
    const { apiKey } = system.dev
    const start = { id: 'european', regions: ['eu-west'] }
    const started = await system.fetch('/v1/programs', { method: 'POST', body: JSON.stringify(start) })
    expect(await started.json()).toMatchObject({ id: 'european', regions: ['eu-west'] })
    // us-east comes first where a client's place is unknown; the program's word is known only to its actor.
    for (let i = 0; i < 3; i += 1) expect(await regionOf(call(apiKey, { 'x-program-id': 'european' }))).toBe('eu-west')
    await done('agents', 'drain', 'eu-west-1')
    const refused = await call(apiKey, { 'x-program-id': 'european' })
    expect(refused.status).toBe(503)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    const { error } = (await refused.json()) as { error: { code: string; message: string } }
    expect(error).toMatchObject({ code: 'no_engine_in_regions', message: expect.stringContaining('eu-west') })
    const named = await call(apiKey, { 'x-program-regions': 'eu-west' })
    expect([named.status, await codeOf(named)]).toEqual([503, 'no_engine_in_regions'])
    expect(await regionOf(call(apiKey, { 'x-program-id': 'anywhere' }))).toBe('us-east')
    await done('agents', 'undrain', 'eu-west-1')
    await eventually('it is served again', async () =>
      (await call(apiKey, { 'x-program-id': 'european' })).status === 200 ? true : undefined,
    )
  })

  it('is refused a region that does not exist, and a key its others', async () => {
    const { apiKey } = system.dev
    const unknown = await call(apiKey, { 'x-program-regions': 'mars' })
    expect([unknown.status, await codeOf(unknown)]).toEqual([400, 'region_not_found'])
    const { key } = await done<{ key: string }>('keys', 'create', 'local', '--regions', 'us-east')
    expect(await regionOf(call(key))).toBe('us-east')
    const other = await call(key, { 'x-program-regions': 'eu-west' })
    expect([other.status, await codeOf(other)]).toEqual([403, 'region_not_allowed'])
    const program = await call(key, { 'x-program-id': 'european' })
    expect([program.status, await codeOf(program)]).toEqual([403, 'region_not_allowed'])
  })
})

it('limits a tenant’s calls a minute and its running programs', async () => {
  await done('tenants', 'create', '--id', 'small', '--name', 'Small', '--calls-per-minute', '4', '--live-programs', '2')
  const { key } = await done<{ key: string }>('keys', 'create', 'small')
  const answers: Response[] = []
  for (const program of ['a', 'b', 'c', 'a', 'a']) answers.push(await call(key, { 'x-program-id': program }))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 429, 200, 429])
  const [, , third, , fifth] = answers as [Response, Response, Response, Response, Response]
  expect(await codeOf(third)).toBe('live_programs_exceeded')
  expect(await codeOf(fifth)).toBe('rate_limit_exceeded')
  for (const refused of [third, fifth]) expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
})

it('says precisely what is wrong, with an exit code for each kind', async () => {
  expect(await cli('tenants', 'get', 'unknown')).toMatchObject({ code: 1, stderr: expect.stringContaining('unknown') })
  expect(await cli('tenants', 'create')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--name is missing'),
  })
  expect(await cli('pools', '--url', 'http://127.0.0.1:9')).toMatchObject({ code: 3 })
  expect(await cli('pools', '--admin-key', 'wrong')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('admin key'),
  })
  expect((await cli('keys', 'create', '--help')).stdout).toContain('--models')
  expect(await cli('regions', 'update', 'us-east', '--longitude', '-181')).toMatchObject({ code: 1 })
  expect(await done('regions', 'update', 'us-east', '--longitude', '-77.5')).toMatchObject({ longitude: -77.5 })
})

it('removes an agent: its engines are gone at once and it does not come back', async () => {
  await done('agents', 'remove', 'eu-west-1')
  const engines = await done<{ agent: string }[]>('pools', 'engines')
  expect(engines.map(({ agent }) => agent)).toEqual(['us-east-1'])
  expect(await regionOf(call(system.dev.apiKey))).toBe('us-east')
  const leases = await done<{ reason: string }[]>('pools', 'leases', 'us-east', MODEL)
  expect(leases[0]).toMatchObject({ engine: 'us-east-1-e0', reason: expect.any(String) })
  expect(await cli('agents', 'create', 'eu-west-1', '--region', 'eu-west')).toMatchObject({ code: 1 })
  await system.down()
  const { stderr } = await system.up().then(
    () => expect.unreachable('it started with an agent that was removed'),
    (error: { stderr: string }) => error,
  )
  expect(stderr).toContain('the agent eu-west-1')
  expect(stderr).toContain('--regions us-east')
})
