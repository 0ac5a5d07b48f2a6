/**
 * `npm run bench:memory`: whether workerd keeps something of programs that are over, and of what. Equal waves of programs, one
 * call each, in four variants side by side, and a fifth without calls. An allocator keeps what it was given, so a single wave says nothing: what tells is
 * whether later waves raise the resident set. A pause after each wave is so long that workerd has evicted the wave before when
 * memory is read, so each reading has the same number of programs in memory.
 *
 * - as is: other programs in every wave
 * - no alarms: the same, and programs set none
 * - deleted: the same, and each wave's programs are ended, so that their storage is empty and they have no alarm
 * - reused: the same programs in every wave
 * - idle: no program at all. What grows here grows with time
 */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { flagsOrExit, wholeNumber } from '../../cli/flags.ts'
import { textTable } from '../../cli/table.ts'
import { freePort } from '../../ops/system/free-port.ts'
import { HOST } from '../../ops/system/port.ts'
import { agentIdOf } from '../../ops/workerd/agent-ids.ts'
import { workerdPath } from '../../ops/workerd/workerd-launcher.ts'
import { startTestbed, type Testbed } from '../testbed/testbed.ts'
import { switchyardLane } from './overhead/lanes.ts'
import { closedLoad, type Lane } from './overhead/load.ts'
import { residentBytes } from './overhead/proc.ts'
import { MODEL, REGION } from './overhead/system.ts'

const HELP = `Whether memory is left of programs that are over: waves of programs in variants side by side.

  npm run bench:memory -- [flags]

  --waves 6         the first two fill the allocator, and are not judged
  --programs 300    of each wave and variant
  --pause-s 36      after each wave; with the waves themselves, two pauses must be longer than 78 s
  --json FILE
  --help

With these defaults it takes about 7 minutes on an idle machine, and 3 GB of memory. Linux only.`

/** workerd evicts an object that was not asked for 70 s; it looks every few seconds. */
const EVICTION_S = 78
const CONNECTIONS = 16
const WAVE_S_MAX = 60
const DELETED_AT_ONCE = 8
const OUTPUT_TOKENS = 4
const UNJUDGED_WAVES = 2
/** As Miniflare names the Worker of wrangler.toml. */
const ISOLATE = 'core:user:switchyard'
const INSPECTOR_MS_MAX = 20_000
const NO_ALARMS = 'test/workerd/no-alarms-worker.ts'
const VARIANTS = ['as is', 'no alarms', 'deleted', 'reused', 'idle'] as const
type VariantName = (typeof VARIANTS)[number]

interface Variant {
  name: VariantName
  testbed: Testbed
  lane: Lane
  inspector_port: number
  load: number
}

interface Reading {
  variant: VariantName
  wave: number
  /** After a garbage collection. */
  resident_bytes: number
  heap_bytes: number
}

interface Residue {
  variant: VariantName
  /** Of a line through the judged waves, with its standard error. */
  resident_bytes_per_program: number
  resident_error: number
  heap_bytes_per_program: number
}

const TEXT = { type: 'string' } as const
const read = flagsOrExit('bench:memory', HELP, {
  waves: { ...TEXT, default: '6' },
  programs: { ...TEXT, default: '300' },
  'pause-s': { ...TEXT, default: '36' },
  json: TEXT,
})
const waves = wholeNumber('--waves', read.waves, UNJUDGED_WAVES + 3, 100)
const programs = wholeNumber('--programs', read.programs, 1, 10_000)
const pause_s = wholeNumber('--pause-s', read['pause-s'], 1, 600)
const note = (line: string): void => void process.stderr.write(`${line}\n`)

const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-memory-'))
const variants: Variant[] = []
try {
  for (const name of VARIANTS) variants.push(await started(name))
  const readings: Reading[] = []
  for (let wave = 1; wave <= waves; wave++) {
    const began_ms = performance.now()
    for (const variant of variants) await play(variant)
    const lasted_s = (performance.now() - began_ms) / 1000
    // The wave before was made a wave and two pauses ago.
    await sleep(1000 * Math.max(pause_s, EVICTION_S - pause_s - lasted_s))
    for (const variant of variants) {
      const reading = { variant: variant.name, wave, ...(await memoryOf(variant)) }
      readings.push(reading)
      const { resident_bytes, heap_bytes } = reading
      note(`wave ${wave} of ${waves}, ${variant.name}: ${mb(resident_bytes)} MB resident, heap ${mb(heap_bytes)} MB`)
    }
  }
  const residues = VARIANTS.map((variant) => residueOf(variant, readings))
  print(readings, residues)
  const machine = { load_average: loadavg()[0], at: new Date().toISOString(), node: process.version }
  const report = { machine, waves, programs, pause_s, readings, residues }
  if (read.json !== undefined) writeFileSync(read.json, `${JSON.stringify(report, null, 2)}\n`)
} finally {
  for (const { testbed } of variants) await testbed.remove()
  rmSync(folder, { recursive: true })
}

async function started(name: VariantName): Promise<Variant> {
  note(`starting: ${name}`)
  const inspector_port = await freePort()
  // Miniflare has an inspector for all its Workers together, behind a proxy; workerd's own is asked for here.
  const launcher = path.join(folder, `workerd-${inspector_port}`)
  const command = `#!/bin/sh\nshift\nexec '${workerdPath()}' serve --inspector-addr=${HOST}:${inspector_port} "$@"\n`
  writeFileSync(launcher, command)
  chmodSync(launcher, 0o755)
  process.env.SWITCHYARD_WORKERD = launcher
  const flags = name === 'no alarms' ? { entry: NO_ALARMS } : {}
  const testbed = await startTestbed({ name: 'memory', regions: [REGION], model: MODEL, flags })
  delete process.env.SWITCHYARD_WORKERD
  try {
    const engine = { engine: 'emulated', engines: 1, profile: 'fast', 'drain-limit-s': 1 }
    await testbed.agent({ id: agentIdOf(REGION), region: REGION, flags: engine }).start()
    const lane = switchyardLane(testbed, { output_tokens: OUTPUT_TOKENS }, (index) => `m${index}`)
    return { name, testbed, lane, inspector_port, load: 0 }
  } catch (error) {
    await testbed.remove()
    throw error
  }
}

/** A wave: a call of each of its programs. */
async function play(variant: Variant): Promise<void> {
  const { name, testbed, lane } = variant
  if (name === 'idle') return
  if (name !== 'reused' || variant.load === 0) {
    // The lane's programs are named by how often it was prepared.
    await lane.prepare(programs)
    variant.load += 1
  }
  const { calls } = await closedLoad(lane, CONNECTIONS, WAVE_S_MAX, programs)
  if (calls < programs) throw new Error(`only ${calls} of ${programs} calls were made in ${WAVE_S_MAX} s`)
  if (name !== 'deleted') return
  let next = 0
  const end = async (): Promise<void> => {
    for (let index = next++; index < programs; index = next++) {
      const answer = await testbed.fetch(`/v1/programs/${variant.load}-m${index}`, { method: 'DELETE' })
      if (!answer.ok) throw new Error(`a program was not ended: ${answer.status} ${await answer.text()}`)
      await answer.arrayBuffer()
    }
  }
  await Promise.all(Array.from({ length: DELETED_AT_ONCE }, end))
}

async function memoryOf({ testbed, inspector_port }: Variant) {
  const heap_bytes = await collectedHeapBytes(inspector_port)
  return { resident_bytes: residentBytes(testbed.workerdPid ?? 0), heap_bytes }
}

/** The JavaScript heap of the control plane, Worker and objects together, after a garbage collection, over the inspector. */
async function collectedHeapBytes(port: number): Promise<number> {
  const socket = new WebSocket(`ws://${HOST}:${port}/${ISOLATE}`)
  await new Promise((resolve, reject) => {
    socket.onopen = resolve
    socket.onerror = () => reject(new Error(`the inspector refused ${ISOLATE}`))
  })
  try {
    await ask(socket, 1, 'HeapProfiler.collectGarbage')
    const { usedSize } = (await ask(socket, 2, 'Runtime.getHeapUsage')) as { usedSize: number }
    return usedSize
  } finally {
    socket.close()
  }
}

function ask(socket: WebSocket, id: number, method: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new Error(`the inspector did not answer ${method} within ${INSPECTOR_MS_MAX / 1000} s`))
    setTimeout(late, INSPECTOR_MS_MAX).unref()
    socket.onclose = () => reject(new Error(`the inspector closed before it answered ${method}`))
    socket.onmessage = ({ data }) => {
      const answer = JSON.parse(String(data)) as { id?: number; result?: unknown; error?: { message: string } }
      if (answer.id !== id) return
      if (answer.error === undefined) resolve(answer.result)
      else reject(new Error(`${method}: ${answer.error.message}`))
    }
    socket.send(JSON.stringify({ id, method }))
  })
}

/** Least squares over the judged waves. */
function residueOf(variant: VariantName, readings: readonly Reading[]): Residue {
  const own = readings.filter((reading) => reading.variant === variant && reading.wave > UNJUDGED_WAVES)
  const resident = line(own.map(({ wave, resident_bytes }) => [wave, resident_bytes]))
  const heap = line(own.map(({ wave, heap_bytes }) => [wave, heap_bytes]))
  return {
    variant,
    resident_bytes_per_program: Math.round(resident.slope / programs),
    resident_error: Math.round(resident.error / programs),
    heap_bytes_per_program: Math.round(heap.slope / programs),
  }
}

function line(points: readonly (readonly [number, number])[]): { slope: number; error: number } {
  const mean = (at: 0 | 1) => points.reduce((sum, point) => sum + point[at], 0) / points.length
  const [x_mean, y_mean] = [mean(0), mean(1)]
  const spread = points.reduce((sum, [x]) => sum + (x - x_mean) ** 2, 0)
  const slope = points.reduce((sum, [x, y]) => sum + (x - x_mean) * (y - y_mean), 0) / spread
  const left = points.reduce((sum, [x, y]) => sum + (y - y_mean - slope * (x - x_mean)) ** 2, 0)
  return { slope, error: Math.sqrt(left / Math.max(1, points.length - 2) / spread) }
}

function print(readings: readonly Reading[], residues: readonly Residue[]): void {
  const right = 'right' as const
  const numbers = Array.from({ length: waves }, (_, index) => index + 1)
  for (const [title, key] of [
    ['Resident set after each wave, MB', 'resident_bytes'],
    ['JavaScript heap after each wave, MB', 'heap_bytes'],
  ] as const) {
    const cell = (variant: VariantName, wave: number) =>
      mb(readings.find((reading) => reading.variant === variant && reading.wave === wave)?.[key] ?? 0)
    const columns = [
      { title: 'variant', cell: (variant: VariantName) => variant as string },
      ...numbers.map((wave) => ({
        title: String(wave),
        cell: (variant: VariantName) => cell(variant, wave),
        align: right,
      })),
    ]
    console.log(`\n${title}\n${textTable(columns, VARIANTS)}`)
  }
  const columns = [
    { title: 'variant', cell: ({ variant }: Residue) => variant as string },
    {
      title: 'resident, kB',
      cell: (one: Residue) => `${kb(one.resident_bytes_per_program)} ± ${kb(one.resident_error)}`,
      align: right,
    },
    { title: 'heap, kB', cell: (one: Residue) => kb(one.heap_bytes_per_program), align: right },
  ]
  console.log(`\nGrowth per program from wave ${UNJUDGED_WAVES + 1} on\n${textTable(columns, residues)}\n`)
  console.log(verdict(residues))
}

/** A growth within twice its standard error is none. A variant that grows by half as much as the system as it is shares the cause. */
function verdict(residues: readonly Residue[]): string {
  const of = (name: VariantName) => residues.find(({ variant }) => variant === name) as Residue
  const { resident_bytes_per_program: growth, resident_error } = of('as is')
  if (growth <= 2 * resident_error) return 'No residue: as it is, memory does not grow beyond what readings scatter by.'
  const grows = (name: VariantName) => of(name).resident_bytes_per_program >= growth / 2
  const told = `As it is, memory grows by ${kb(growth)} kB for each program that is over.`
  if (grows('idle')) return `${told} It does without any call, too, so it grows with time.`
  if (grows('reused'))
    return `${told} It does where the same programs are called again, too. So what stays is of calls, not of programs that are over.`
  if (!grows('no alarms')) return `${told} It does not where programs set no alarm: their alarms are what stays.`
  if (!grows('deleted'))
    return `${told} It does not where programs are ended: what stays is of those that are still live.`
  return `${told} It does not where the same programs are called again: what stays is of objects that were evicted.`
}

function mb(bytes: number): string {
  return (bytes / 1e6).toFixed(1)
}

function kb(bytes: number): string {
  return (bytes / 1e3).toFixed(1)
}
