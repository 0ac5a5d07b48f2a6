/**
 * Writes the data directory of an earlier version under load and packs it for the upgrade test. It needs a checkout of that
 * version whose packages are installed (`git worktree add ../old COMMIT`, then `npm ci` there):
 *
 *   node ops/bootstrap.mjs lab/upgrade/write-fixture.ts ../old
 *
 * First some programs run to their ends and the system comes to rest. Then more run, and one agent and the control plane are
 * killed while their calls are open. The other agent has records that it can send to no control plane, and is killed too.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import Database from 'better-sqlite3'
import { z } from 'zod'
import { fail } from '../../cli/flags.ts'
import { dataDir } from '../../ops/system/data-dir.ts'
import { freePort } from '../../ops/system/free-port.ts'
import { HOST } from '../../ops/system/port.ts'
import { processRecord } from '../../ops/system/processes.ts'
import { clientCall } from '../chaos/client.ts'
import { type Tenant, unsettled } from '../chaos/ledger.ts'
import { ManagedChild } from '../testbed/managed-child.ts'
import { flagList } from '../testbed/repository.ts'
import { askProgram, FIXTURES_FOLDER, type Manifest, packFixture } from './fixture.ts'

const MODEL = 'emulated-8b'
const CONTEXT_TOKENS = 8192
const REGION = 'us-east'
const AGENTS = ['us-east-1', 'us-east-2']
const AGENT_FLAGS = { engine: 'emulated', profile: 'tiny', seats: 3, slots: 8, 'context-tokens': CONTEXT_TOKENS }
const PROGRAMS_AT_REST = 6
const PROGRAMS_KILLED = 6
/** The longest of three calls takes about half a second. */
const STEP_TOKENS = 60
const PAUSE_MS = 20
const LOAD_MS = 2_000
/** Agents go on alone: their records find no control plane. */
const ALONE_MS = 1_000
const SETTLE_MS_MAX = 30_000

const Secrets = z.object({ apiKey: z.string(), adminKey: z.string(), agentTokens: z.record(z.string(), z.string()) })
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

const [checkout] = process.argv.slice(2)
if (checkout === undefined) fail('Name a checkout of the earlier version, with its packages installed.')
const scripts = existsSync(path.join(checkout, 'ops/control-plane.ts')) ? 'ops' : 'scripts'
const commit = execFileSync('git', ['-C', checkout, 'rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim()
const place = dataDir(mkdtempSync(path.join(tmpdir(), 'switchyard-fixture-')))
mkdirSync(place.logs)
const port = await freePort()
const url = `http://${HOST}:${port}`

const control = new ManagedChild({
  name: 'control-plane',
  cwd: checkout,
  args: [
    path.resolve(checkout, scripts, 'control-plane.ts'),
    ...flagList({ 'data-dir': place.root, port, regions: REGION, 'agents-per-region': AGENTS.length, model: MODEL }),
    ...flagList({ 'context-tokens': CONTEXT_TOKENS }),
  ],
  logFile: path.join(place.logs, 'control-plane.log'),
  ready: ['ready'],
})
const agents: ManagedChild<'ready' | 'linked'>[] = []
try {
  const { ready } = await control.start()
  const secrets = Secrets.parse(JSON.parse(readFileSync(place.secrets, 'utf8')))
  for (const id of AGENTS) agents.push(agentOf(id, secrets.agentTokens[id] ?? ''))
  await Promise.all(agents.map((agent) => agent.start()))
  const tenants = [{ tenant: 'local', apiKey: secrets.apiKey }, await createTenant('acme', secrets.adminKey)]
  const at_rest = await runToRest(tenants)
  const killed = tenants.flatMap((tenant) =>
    Array.from({ length: PROGRAMS_KILLED }, (_, at) => ({ tenant, program: `killed-${at}` })),
  )
  const leaving = new AbortController()
  const running = killed.map(({ tenant, program }) => runLoop(tenant, program, leaving.signal))
  await sleep(LOAD_MS)
  agents[0]?.signal('SIGKILL')
  control.signal('SIGKILL')
  process.kill(Number(ready.workerd_pid), 'SIGKILL')
  await sleep(ALONE_MS)
  for (const agent of agents) agent.signal('SIGKILL')
  leaving.abort()
  await Promise.all([...running, ...agents.map((agent) => agent.ended), control.ended])
  while ((await processRecord(Number(ready.workerd_pid))) !== null) await sleep(50)
  const programs = [...at_rest, ...killed.map(({ tenant, program }) => ({ tenant: tenant.tenant, program }))]
  const manifest: Manifest = {
    ...{ commit, model: MODEL, context_tokens: CONTEXT_TOKENS, region: REGION, agents: AGENTS, tenants, at_rest },
    agent_flags: AGENT_FLAGS,
    programs: programs.map(({ tenant, program }) => ({ tenant, program })),
  }
  mkdirSync(FIXTURES_FOLDER, { recursive: true })
  const file = path.join(FIXTURES_FOLDER, `${commit}.tar.gz`)
  for (const { outbox } of outboxes()) checkpoint(outbox)
  packFixture(place.root, manifest, file)
  const { open_leases, unacknowledged } = unsettled({ agents: outboxes() })
  console.log(`${file}: ${statSync(file).size} bytes, ${programs.length} programs`)
  console.log(`Killed with ${open_leases} leases open and ${unacknowledged} records not acknowledged.`)
} finally {
  for (const child of [...agents, control]) await child.end('SIGKILL')
  rmSync(place.root, { recursive: true, force: true })
}

function agentOf(id: string, token: string): ManagedChild<'ready' | 'linked'> {
  const own = { id, region: REGION, 'control-url': url, listen: `${HOST}:0`, 'model-id': MODEL }
  return new ManagedChild({
    name: id,
    cwd: checkout as string,
    args: [
      path.resolve(checkout as string, 'gpu-agent/src/main.ts'),
      ...flagList({ ...own, 'data-dir': place.agent(id), ...AGENT_FLAGS }),
    ],
    env: { SWITCHYARD_AGENT_TOKEN: token },
    logFile: path.join(place.logs, `${id}.log`),
    ready: ['ready', 'linked'],
  })
}

/** Moves its log into the database: the same content in a tenth of the bytes. The control plane's own stay as the kill left them. */
function checkpoint(file: string): void {
  const database = new Database(file)
  database.pragma('wal_checkpoint(TRUNCATE)')
  database.close()
}

function outboxes(): { id: string; outbox: string }[] {
  return AGENTS.map((id) => ({ id, outbox: path.join(place.agent(id), 'outbox.sqlite') }))
}

async function createTenant(name: string, adminKey: string): Promise<Tenant> {
  const created = z.object({ id: z.string() }).parse(await post('/admin/v1/tenants', adminKey, { name }))
  const route = `/admin/v1/tenants/${created.id}/keys`
  const { key } = z.object({ key: z.string() }).parse(await post(route, adminKey, { name }))
  return { tenant: created.id, apiKey: key }
}

async function post(route: string, key: string, body: object): Promise<unknown> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const answer = await fetch(`${url}${route}`, { method: 'POST', headers, body: JSON.stringify(body) })
  if (!answer.ok) throw new Error(`${route}: ${answer.status} ${await answer.text()}`)
  return answer.json()
}

/** Half of the programs are ended by their clients, the others go on running without a call. */
async function runToRest(tenants: readonly Tenant[]): Promise<Manifest['at_rest']> {
  const made = tenants.flatMap((tenant) =>
    Array.from({ length: PROGRAMS_AT_REST }, (_, at) => ({ tenant, program: `rest-${at}`, is_ended: at % 2 === 0 })),
  )
  await Promise.all(made.map(({ tenant, program }) => runProgram(tenant, program)))
  await settled()
  for (const { tenant, program, is_ended } of made) {
    if (!is_ended) continue
    const headers = { authorization: `Bearer ${tenant.apiKey}` }
    const answer = await fetch(`${url}/v1/programs/${program}`, { method: 'DELETE', headers })
    if (!answer.ok) throw new Error(`DELETE ${program}: ${answer.status}`)
  }
  return Promise.all(
    made.map(async ({ tenant, program }) => {
      const told = await askProgram(url, tenant, program)
      if (told === null) throw new Error(`${program} is not there`)
      return { tenant: tenant.tenant, program, ...told }
    }),
  )
}

/** A chain, then branches side by side, then a call that joins them. */
async function runProgram(tenant: Tenant, program: string): Promise<void> {
  for (let step = 0; step < 3; step++) await call(tenant, program, `Step ${step} of ${program}.`, 6 + step)
  await Promise.all([0, 1, 2].map((branch) => call(tenant, program, `Branch ${branch} of ${program}.`, 12)))
  await call(tenant, program, `Join of ${program}.`, 5)
}

async function runLoop(tenant: Tenant, program: string, signal: AbortSignal): Promise<void> {
  for (let step = 0; !signal.aborted; step++) {
    await call(tenant, program, `Step ${step} of ${program}.`, 10 + (step % 3) * STEP_TOKENS, signal)
    await sleep(PAUSE_MS)
  }
}

async function call(
  { apiKey }: Tenant,
  program: string,
  prompt: string,
  output_tokens: number,
  signal?: AbortSignal,
): Promise<string> {
  const asked = { url, api_key: apiKey, model: MODEL, program, prompt, output_tokens, stream: output_tokens % 2 === 0 }
  const { end } = await clientCall({ ...asked, ...(signal === undefined ? {} : { signal }) })
  if (end !== 'completed' && signal === undefined) throw new Error(`a call of ${program} ended as ${end}`)
  return end
}

async function settled(): Promise<void> {
  const until_ms = performance.now() + SETTLE_MS_MAX
  for (;;) {
    const { open_leases, unacknowledged } = unsettled({ agents: outboxes() })
    if (open_leases + unacknowledged === 0) return
    if (performance.now() > until_ms) throw new Error('The records were not acknowledged in time.')
    await sleep(100)
  }
}
