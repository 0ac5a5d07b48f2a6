/** `npm run status`: what runs: processes, engines, how much waits at them, and what the stores hold. Exit code 0 if all is well, 1 if not. */
import { textTable } from '../cli/table.ts'
import { readDataDirFlags } from './system/data-dir-flags.ts'
import { type DevJson, type ProductionJson, readDevJson, readProductionJson } from './system/dev-json.ts'
import { exitExplained } from './system/explain-error.ts'
import { diskFullText, freeBytes } from './system/host-limits.ts'
import { lockHolder } from './system/lock.ts'
import { type EngineRow, type PoolsOutcome, readEngines } from './system/pools.ts'
import { isAlive } from './system/processes.ts'
import { storageSizes, storageTable } from './system/storage-sizes.ts'

const { place, on } = readDataDirFlags('status', 'Shows what runs here: processes, engines and storage.', {
  json: 'the same, as JSON, without keys unless --show-key is given',
  'show-key': 'the keys too: one of the tenant default, and the operator’s',
})
exitExplained(place)
const NO_KEY =
  'No key is kept here: the admin key is in the environment of the system, and `switchyard keys create TENANT` makes another API key.'
const holder = await lockHolder(place.lock)
const system = holder === null ? null : await readDevJson(place.devJson)
const production = holder === null ? null : await readProductionJson(place.production)
if (holder === null)
  report(
    { running: false, state: 'down' },
    `Nothing runs on ${place.root}. \`npm run up\` starts it, --data-dir names another folder.`,
  )
else if (production !== null) await describeProduction(production)
else if (system === null)
  report(
    { running: true, state: 'starting', pid: holder.pid },
    `Switchyard is starting or stopping (pid ${holder.pid}).`,
  )
else await describe(system)

/** Engines are asked for with the admin key of the environment: none lies on disk. */
async function describeProduction({ url, pid, controlPlanePid }: ProductionJson): Promise<void> {
  const processes = [
    { name: 'supervisor', pid, alive: isAlive(pid) },
    { name: 'control plane', pid: controlPlanePid, alive: isAlive(controlPlanePid) },
  ]
  const adminKey = process.env.ADMIN_KEY ?? ''
  const pools = adminKey === '' ? null : await readEngines({ url, adminKey })
  const engines = pools?.ok ? pools.engines : []
  const well = processes.every(({ alive }) => alive) && (pools === null || pools.ok)
  const storage = await storageSizes(place)
  const known = pools === null ? 'Engines are shown where ADMIN_KEY is set.' : engineText(pools)
  const keys = on['show-key'] ? `${NO_KEY}\n\n` : ''
  const table = storageTable(storage, await freeBytes(place.root))
  const said = [
    `Switchyard in production on ${url}`,
    '',
    `${keys}${processTable(processes)}`,
    '',
    known,
    '',
    table,
  ].join('\n')
  const state = await withDisk(well, said)
  reportState(state, { url, processes, engines, storage })
}

async function describe(running: DevJson): Promise<void> {
  const processes = [
    { name: 'supervisor', pid: running.pid },
    { name: 'control plane', pid: running.controlPlanePid },
    ...running.agents.map(({ id, pid }) => ({ name: id, pid })),
  ].map((entry) => ({ ...entry, alive: isAlive(entry.pid) }))
  const pools = await readEngines(running)
  const engines = pools.ok ? pools.engines : []
  const served = running.agents.length === 0 || engines.length > 0
  const ready = served && engines.every(({ state }) => state === 'ready')
  const well = pools.ok && processes.every(({ alive }) => alive) && ready
  const { url, model, engine, policy } = running
  const storage = await storageSizes(place)
  const keys = on['show-key'] ? { api_key: running.apiKey, admin_key: running.adminKey } : null
  const said = [
    `Switchyard on ${url}: ${model} (${engine}), policy ${policy}`,
    '',
    ...(keys === null ? [] : [`API key    ${keys.api_key}`, `admin key  ${keys.admin_key}`, '']),
    processTable(processes),
    '',
    engineText(pools),
    '',
    storageTable(storage, await freeBytes(place.root)),
  ].join('\n')
  reportState(await withDisk(well, said), { url, ...keys, model, engine, policy, processes, engines, storage })
}

function processTable(processes: readonly { name: string; pid: number; alive: boolean }[]): string {
  return textTable(
    [
      { title: 'process', cell: ({ name }) => name },
      { title: 'pid', cell: ({ pid }) => (pid === 0 ? '-' : String(pid)), align: 'right' },
      { title: 'state', cell: ({ pid, alive }) => stateOf(pid, alive) },
    ],
    processes,
  )
}

/** 0 where a process has not started yet. */
function stateOf(pid: number, alive: boolean): string {
  if (pid === 0) return 'starts'
  return alive ? 'runs' : 'gone'
}

function engineText(pools: PoolsOutcome): string {
  return pools.ok ? engineTable(pools.engines) : `Engines are unknown: ${pools.reason}`
}

function engineTable(engines: readonly EngineRow[]): string {
  if (engines.length === 0) return 'No engine is connected.'
  return textTable<EngineRow>(
    [
      { title: 'engine', cell: ({ engine }) => engine },
      { title: 'region', cell: ({ region }) => region },
      { title: 'state', cell: ({ state }) => state },
      { title: 'running', cell: ({ running, seats }) => `${running}/${seats}`, align: 'right' },
      { title: 'waiting', cell: ({ waiting }) => String(waiting), align: 'right' },
      { title: 'queued tokens', cell: ({ queued_tokens }) => String(queued_tokens), align: 'right' },
      {
        title: 'KV',
        cell: ({ kv_used_tokens, kv_capacity_tokens }) =>
          kv_capacity_tokens === 0 ? '-' : `${Math.round((100 * kv_used_tokens) / kv_capacity_tokens)} %`,
        align: 'right',
      },
    ],
    engines,
  )
}

function reportState(
  { well, text, disk_free_bytes }: Awaited<ReturnType<typeof withDisk>>,
  system: Record<string, unknown>,
): void {
  report({ running: true, state: well ? 'ready' : 'degraded', ...system, disk_free_bytes }, text, well ? 0 : 1)
}

/** Also of a system whose processes all run. */
async function withDisk(
  well: boolean,
  text: string,
): Promise<{ well: boolean; text: string; disk_free_bytes: number | null }> {
  const disk_free_bytes = await freeBytes(place.root)
  const full = diskFullText(place.root, disk_free_bytes)
  return { well: well && full === null, text: full === null ? text : `${text}\n\n${full}`, disk_free_bytes }
}

function report(value: Record<string, unknown>, text: string, code = value.running === true ? 0 : 1): void {
  console.log(on.json ? JSON.stringify(value, null, 2) : text)
  process.exitCode = code
}
