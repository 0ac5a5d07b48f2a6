/**
 * Ids that requests name: the fuzzing tenant's own, another tenant's, and ones of nothing. What the operator changes or
 * removes is only what the fuzzer made itself, so that the system under test stays whole.
 */
import type { Random } from '../../chaos/random.ts'
import type { Operation } from './document.ts'
import { hostileText } from './hostile-values.ts'

export type Kind =
  | 'program'
  | 'response'
  | 'conversation'
  | 'item'
  | 'file'
  | 'upload'
  | 'part'
  | 'batch'
  | 'application'
  | 'node'
  | 'model'
  | 'tenant'
  | 'key'
  | 'region'
  | 'agent'
  | 'class'
  | 'cursor'

const KEPT_MAX = 200
/** Few, so that they exist most of the time. */
const EXPENDABLE = 4
/** The id of a removed agent is not used again. */
const AGENT_NAMES = 1_000_000

type Pool = Partial<Record<Kind, string[]>>

export class KnownIds {
  readonly #own: Pool
  readonly #foreign: Pool
  readonly #expendable: Pool = {
    tenant: names('fuzz-tenant', EXPENDABLE),
    region: names('fuzz-region', EXPENDABLE),
    model: names('fuzz-model', EXPENDABLE),
  }

  /** Of the tenant whose key is used, and of the tenant whose ids it has learned. */
  constructor(own: Pool, foreign: Pool) {
    this.#own = own
    this.#foreign = foreign
  }

  pick(kind: Kind, { name, method, scheme }: Operation, random: Random): string {
    if (random.chance(0.06)) return hostileText(random)
    if (name === 'POST /admin/v1/agents') return `fuzz-agent-${random.between(0, AGENT_NAMES)}`
    // Programs are the fuzzer's own, also where the operator ends one.
    const isChange = scheme === 'adminKey' && method !== 'GET' && !name.includes('/programs/')
    const pools = isChange ? [this.#expendable] : [this.#own, this.#own, this.#expendable, this.#foreign]
    // A tenant may delete what it owns. Its own programs and responses come again.
    const known = random.pick(pools)[kind] ?? []
    if (known.length === 0) return `fuzz-${kind}-${random.between(0, EXPENDABLE - 1)}`
    return random.pick(known)
  }

  /** Ids in an answer to the fuzzer are its own from then on. `asked`: the path that was asked. */
  learn({ name, path }: Operation, asked: string, answer: unknown): void {
    const kind = kindOf(path)
    if (typeof answer !== 'object' || answer === null) return
    const { id, next_cursor, data, key } = answer as Record<string, unknown>
    if (typeof next_cursor === 'string') this.#keep('cursor', next_cursor)
    const isKey = path.includes('/keys')
    if (typeof id === 'string' && path === '/v1/uploads/{id}/parts') this.#keep('part', `${asked.split('/')[3]}/${id}`)
    else if (typeof id === 'string' && !path.startsWith('/admin/')) this.#keep(kind, id)
    if (isKey && typeof id === 'string' && typeof key === 'string')
      this.#keep('key', `${asked.split('/')[4]}/${id}`, this.#expendable)
    if (name === 'POST /admin/v1/agents' && typeof id === 'string') this.#keep('agent', id, this.#expendable)
    const holder = asked.split('/')[3] ?? ''
    const isItems = path === '/v1/conversations/{id}/items'
    for (const one of Array.isArray(data) ? data : []) {
      const { id: inner } = (one ?? {}) as Record<string, unknown>
      if (typeof inner === 'string' && !path.startsWith('/admin/'))
        this.#keep(...(isItems ? itemOf(holder, inner) : ([kind, inner] as const)))
    }
  }

  #keep(kind: Kind, id: string, pool = this.#own): void {
    const known = pool[kind] ?? []
    pool[kind] = known
    if (known.includes(id)) return
    known.push(id)
    // The first ones were there before the fuzzer and stay.
    if (known.length > KEPT_MAX) known.splice(KEPT_MAX / 2, 1)
  }
}

/** An item goes with its conversation, and a key with its tenant, as paths name them: encoded. */
const itemOf = (conversation: string, item: string): ['item', string] => ['item', `${conversation}/${item}`]

/** What `{id}` in a path names. */
export function kindOf(path: string): Kind {
  const [, , noun = ''] = path.replace('/admin', '').split('/')
  const kinds: Readonly<Record<string, Kind>> = {
    ...{ responses: 'response', conversations: 'conversation', models: 'model', tenants: 'tenant' },
    ...{ regions: 'region', agents: 'agent' },
    ...{ files: 'file', uploads: 'upload', batches: 'batch', applications: 'application' },
  }
  return kinds[noun] ?? 'program'
}

function names(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, at) => `${prefix}-${at}`)
}
