/**
 * What a program costs in memory: workerd's resident set before, while many programs are in memory, and when all have been
 * evicted, in several waves of other programs. An allocator keeps what it was given, so the resident set after the first wave
 * says little: what tells is whether later waves raise it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { switchyardLane } from './lanes.ts'
import { closedLoad } from './load.ts'
import { rest, round } from './measure.ts'
import { residentBytes } from './proc.ts'
import type { BenchSystem } from './system.ts'

const WAVES = 3
const CONNECTIONS = 32
/** Well below workerd's expiry, so that no program of a wave is evicted before its last one is made. */
const WAVE_S_MAX = 30
const WARM_UP_CALLS = 500
/** workerd evicts an object for which nobody asked for 70 s; it looks every few seconds. */
const EVICTION_MS = 78_000
const SHAPE = { output_tokens: 4 }

interface Wave {
  /** Made within WAVE_S_MAX, one call each. */
  programs: number
  seconds: number
  resident_bytes: number
  evicted_bytes: number
}

export interface MemoryReport {
  before_bytes: number
  /** Of the first wave: later ones are given what earlier ones left. */
  bytes_per_resident_program: number
  /** Resident set after the last wave's eviction over the first's. */
  evicted_growth: number
  /** What it grew by from the first wave's eviction to the last's, per program made between them. */
  evicted_growth_bytes_per_program: number
  waves: Wave[]
}

/** `programs` in all, the same number in each wave. */
export async function measureMemory(
  system: BenchSystem,
  { programs, note }: { programs: number; note: (line: string) => void },
): Promise<MemoryReport> {
  const lane = switchyardLane(system, SHAPE, (index) => `m${index}`)
  await lane.prepare(0)
  await closedLoad(lane, CONNECTIONS, WAVE_S_MAX, WARM_UP_CALLS)
  await rest(system)
  const before_bytes = residentBytes(system.workerd_pid)
  const waves: Wave[] = []
  for (let wave = 1; wave <= WAVES; wave++) {
    const of_wave = Math.ceil(programs / WAVES)
    await lane.prepare(of_wave)
    const { calls, seconds } = await closedLoad(lane, CONNECTIONS, WAVE_S_MAX, of_wave)
    await rest(system)
    const resident_bytes = residentBytes(system.workerd_pid)
    note(`wave ${wave} of ${WAVES}: ${calls} programs in ${round(seconds, 0)} s, ${megabytes(resident_bytes)}`)
    await sleep(EVICTION_MS)
    const evicted_bytes = residentBytes(system.workerd_pid)
    waves.push({ programs: calls, seconds: round(seconds, 1), resident_bytes, evicted_bytes })
    note(`evicted: ${megabytes(evicted_bytes)}`)
  }
  const [first, last] = [waves[0], waves.at(-1)]
  if (first === undefined || last === undefined) throw new Error('no wave was made')
  const later = waves.slice(1).reduce((sum, wave) => sum + wave.programs, 0)
  return {
    before_bytes,
    bytes_per_resident_program: Math.round((first.resident_bytes - before_bytes) / first.programs),
    evicted_growth: round(last.evicted_bytes / first.evicted_bytes),
    evicted_growth_bytes_per_program: Math.round((last.evicted_bytes - first.evicted_bytes) / later),
    waves,
  }
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1e6)} MB`
}
