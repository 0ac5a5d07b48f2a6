/** Ports for processes that are started, known before they start and the same after each restart. */
import { randomInt } from 'node:crypto'
import { checkPort } from './port.ts'

/**
 * Below the range from which systems choose ports: one that is free and not taken at once stays free while proxies and
 * clients are given theirs.
 */
const PORTS = { first: 20_000, count: 12_000 }
const ATTEMPTS_MAX = 100

export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
    const port = PORTS.first + randomInt(PORTS.count)
    if ((await checkPort(port)).ok) return port
  }
  throw new Error(`no free port in ${ATTEMPTS_MAX} attempts`)
}

/** Different ones. */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>()
  while (ports.size < count) ports.add(await freePort())
  return [...ports]
}
