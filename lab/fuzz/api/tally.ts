/** What was asked and what came back, by route, and every answer that must not be. */
import { type Column, textTable } from '../../../cli/table.ts'
import type { Operation } from './document.ts'

/** Answers of a gateway whose engines or database are busy or gone. Every other 5xx is a defect. */
const SERVER_STATUSES = new Set([502, 503, 504])
/** workerd's own, to a method or a version of HTTP that it does not know. */
const RUNTIME_STATUSES = new Set([501, 505])
const FAULTS_KEPT_MAX = 50
const SHOWN_CHARS = 600

export interface Fault {
  route: string
  what: string
  /** To send it again. */
  request: string
  answer: string
}

export interface SeenAnswer {
  route: string
  status: number
  /** Headers and body. */
  text: string
  request: string
}

export interface Secrets {
  /** In no answer at all. */
  keys: readonly string[]
  /** In no answer to anyone but the other tenant and the operator. */
  foreign: readonly string[]
}

type Counts = Map<string, number>

export class Tally {
  readonly faults: Fault[] = []
  faults_total = 0
  requests = 0
  readonly #secrets: Secrets
  readonly #routes = new Map<string, Counts>()

  constructor(secrets: Secrets) {
    this.#secrets = secrets
  }

  answered({ route, status, text, request }: SeenAnswer): void {
    this.count(route, statusGroup(status))
    if (status >= 500 && !SERVER_STATUSES.has(status) && !RUNTIME_STATUSES.has(status))
      this.fault({ route, what: `the status ${status}`, request, answer: text })
    if (this.#secrets.keys.some((key) => text.includes(key)))
      this.fault({ route, what: 'a key in the answer', request, answer: text })
    if (!route.includes('/admin/') && this.#secrets.foreign.some((secret) => text.includes(secret)))
      this.fault({ route, what: 'another tenant’s data in the answer', request, answer: text })
  }

  count(route: string, group: string): void {
    this.requests += 1
    const counts = this.#routes.get(route) ?? new Map<string, number>()
    this.#routes.set(route, counts)
    counts.set(group, (counts.get(group) ?? 0) + 1)
  }

  fault(fault: Fault): void {
    this.faults_total += 1
    if (this.faults.length >= FAULTS_KEPT_MAX) return
    this.faults.push({
      ...fault,
      request: fault.request.slice(0, 4 * SHOWN_CHARS),
      answer: fault.answer.slice(0, SHOWN_CHARS),
    })
  }

  /** While it runs: how many, and the first. */
  get faultsText(): string {
    const [first] = this.faults
    return first === undefined ? '0 faults' : `${this.faults_total} faults (first: ${first.route}: ${first.what})`
  }

  /** Operations that were never answered with success: the fuzzer saw nothing behind their first check. */
  unreached(operations: readonly Operation[], exempt: ReadonlySet<string>): string[] {
    const names = operations.map(({ name }) => name)
    return names.filter((name) => !exempt.has(name) && (this.#routes.get(name)?.get('2xx') ?? 0) === 0)
  }

  get by_route(): Record<string, Record<string, number>> {
    return Object.fromEntries([...this.#routes].sort().map(([route, counts]) => [route, Object.fromEntries(counts)]))
  }

  table(): string {
    const groups = [...new Set([...this.#routes.values()].flatMap((counts) => [...counts.keys()]))].sort()
    const columns: Column<[string, Counts]>[] = [
      { title: 'route', cell: ([route]) => route },
      { title: 'requests', cell: ([, counts]) => `${sum(counts)}`, align: 'right' },
      ...groups.map((group) => ({
        title: group,
        cell: ([, counts]: [string, Counts]) => `${counts.get(group) ?? ''}`,
        align: 'right' as const,
      })),
    ]
    return textTable(columns, [...this.#routes].sort())
  }
}

const sum = (counts: Counts): number => [...counts.values()].reduce((total, count) => total + count, 0)

function statusGroup(status: number): string {
  if (status < 300) return '2xx'
  return [400, 401, 404].includes(status) ? `${status}` : status < 500 ? '4xx' : '5xx'
}
