/**
 * What a program costs in memory: workerd's resident set before, while many programs are in memory, and when all have been
 * evicted. It is done twice, because an allocator keeps what it was given: what must not grow is the second wave over the first.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { switchyardLane } from './lanes.ts'
import { closedLoad } from './load.ts'
import { rest, round } from './measure.ts'
import { residentBytes } from './proc.ts'
import type { BenchSystem } from './system.ts'

const WAVES = 2
const CONNECTIONS = 32
const WAVE_S_MAX = 120
const WARM_UP_CALLS = 500
/** workerd evicts an object that nobody asked for about a minute. */
const EVICTION_MS = 80_000
const SHAPE = { output_tokens: 4 }

interface Wave {
  programs: number
  seconds: number
  resident_bytes: number
  evicted_bytes: number
  bytes_per_resident_program: number
}

export interface MemoryReport {
  programs: number
  before_bytes: number
  bytes_per_resident_program: number
  /** Second wave's resident set after eviction over the first's. */
  evicted_growth: number
  waves: Wave[]
}

export async function measureMemory(
  system: BenchSystem,
  { programs, note }: { programs: number; note: (line: string) => void },
): Promise<MemoryReport> {
  const lane = switchyardLane(system, SHAPE, (index) => `m${index}`)
  await lane.prepare(0)
  await closedLoad(lane, CONNECTIONS, WAVE_S_MAX, WARM_UP_CALLS)
  await rest(system)
  const before_bytes = residentBytes(system.workerd_pid)
  let base_bytes = before_bytes
  const waves: Wave[] = []
  for (let wave = 0; wave < WAVES; wave++) {
    await lane.prepare(programs)
    const { calls, seconds } = await closedLoad(lane, CONNECTIONS, WAVE_S_MAX, programs)
    await rest(system)
    const resident_bytes = residentBytes(system.workerd_pid)
    note(`${calls} programs in ${round(seconds, 0)} s: ${megabytes(resident_bytes)}; waiting for their eviction`)
    await sleep(EVICTION_MS)
    const evicted_bytes = residentBytes(system.workerd_pid)
    const bytes_per_resident_program = Math.round((resident_bytes - base_bytes) / calls)
    waves.push({
      programs: calls,
      seconds: round(seconds, 1),
      resident_bytes,
      evicted_bytes,
      bytes_per_resident_program,
    })
    note(`evicted: ${megabytes(evicted_bytes)}`)
    base_bytes = evicted_bytes
  }
  const [first, second] = waves
  return {
    programs,
    before_bytes,
    bytes_per_resident_program: first?.bytes_per_resident_program ?? Number.NaN,
    evicted_growth: round((second?.evicted_bytes ?? Number.NaN) / (first?.evicted_bytes ?? Number.NaN)),
    waves,
  }
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1e6)} MB`
}
