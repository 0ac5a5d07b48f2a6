/**
 * What a pool knows about the classes of its calls, for its agents. A class's actor is asked off the call path when a call
 * of the class is leased. The time between two questions doubles from ASK_INTERVAL.min_ms: what ends first tells most. What
 * is new goes to the links, and a link that opens gets all. Nothing is stored: agents keep what they were told.
 */
import { logFailure } from '../platform/log.ts'
import { CLASSES_PER_FRAME_MAX, type ClassData, type Classes, FRAME_BYTES_MAX } from '../protocol/index.ts'
import type { ClassRpc } from './contracts.ts'

/** Classes of a pool, over all tenants. The one that was leased for longest ago is forgotten first. */
export const POOL_CLASSES_MAX = 512
export const ASK_INTERVAL = { min_ms: 2_000, max_ms: 60_000 } as const
/** What is known of all of them, as JSON. The one that was leased for longest ago is forgotten first. */
export const POOL_CLASSES_BYTES_MAX = 32 * 1024 * 1024
/** Actors that are asked at a time. Past it a class is asked for with its next call. */
export const ASKS_AT_ONCE_MAX = 16
/** Answers of this time share a frame. */
const GATHER_MS = 100

interface PoolClass {
  tenant: string
  name: string
  /** When it may be asked about next. */
  due_ms: number
  interval_ms: number
  /** What it said last. Null: nothing is known. */
  revision: string | null
  /** JSON ClassData: a fraction of the memory that the value takes. All of it is ASCII. */
  text: string | null
}

interface Surroundings {
  actorOf(tenant: string, name: string): Pick<ClassRpc, 'sketch'>
  waitUntil(work: Promise<void>): void
  /** Sends a frame over each link whose agent has said hello. */
  send(frame: string): void
}

export class PoolClasses {
  readonly #around: Surroundings
  /** The one leased for longest ago first. */
  readonly #classes = new Map<string, PoolClass>()
  #asking = 0
  #bytes = 0
  #fresh: string[] = []
  #sending: ReturnType<typeof setTimeout> | null = null

  constructor(around: Surroundings) {
    this.#around = around
  }

  /** A call of the class was leased. Returns at once. */
  leased(tenant: string, name: string, now_ms: number): void {
    const key = keyOf({ tenant, name })
    const known = this.#classes.get(key) ?? newClass(tenant, name)
    this.#classes.delete(key)
    this.#classes.set(key, known)
    this.#makeRoom()
    if (now_ms < known.due_ms || this.#asking >= ASKS_AT_ONCE_MAX) return
    known.due_ms = now_ms + known.interval_ms
    known.interval_ms = Math.min(ASK_INTERVAL.max_ms, 2 * known.interval_ms)
    this.#around.waitUntil(this.#ask(known))
  }

  /** All that is known, for a link that has opened. */
  frames(): string[] {
    return classFrames([...this.#classes.values()].flatMap(({ text }) => text ?? []))
  }

  async #ask(known: PoolClass): Promise<void> {
    const { tenant, name } = known
    this.#asking += 1
    try {
      const told = await this.#around.actorOf(tenant, name).sketch(known.revision)
      if (told === null) return
      known.revision = told.revision
      const data: ClassData = { tenant, class: name, sketch: told.sketch }
      const text = JSON.stringify(data)
      this.#fresh.push(text)
      this.#keep(known, text)
      this.#sending ??= setTimeout(() => this.#send(), GATHER_MS)
    } catch (error) {
      logFailure('class_not_asked', error, { tenant })
    } finally {
      this.#asking -= 1
    }
  }

  /** It may have been forgotten while it was asked. */
  #keep(known: PoolClass, text: string): void {
    if (this.#classes.get(keyOf(known)) !== known) return
    this.#bytes += text.length - (known.text?.length ?? 0)
    known.text = text
    this.#makeRoom()
  }

  #makeRoom(): void {
    for (const [key, { text }] of this.#classes) {
      if (this.#classes.size <= POOL_CLASSES_MAX && this.#bytes <= POOL_CLASSES_BYTES_MAX) return
      this.#classes.delete(key)
      this.#bytes -= text?.length ?? 0
    }
  }

  #send(): void {
    this.#sending = null
    for (const frame of classFrames(this.#fresh.splice(0))) this.#around.send(frame)
  }
}

function newClass(tenant: string, name: string): PoolClass {
  return {
    tenant,
    name,
    due_ms: Number.NEGATIVE_INFINITY,
    interval_ms: ASK_INTERVAL.min_ms,
    revision: null,
    text: null,
  }
}

function keyOf({ tenant, name }: Pick<PoolClass, 'tenant' | 'name'>): string {
  return JSON.stringify([tenant, name])
}

/** `classes`: JSON ClassData. As few frames as their bounds allow. All of it is ASCII, so a character is a byte. */
export function classFrames(classes: readonly string[]): string[] {
  const empty: Classes = { type: 'classes', classes: [] }
  const around_chars = JSON.stringify(empty).length
  const frames: string[] = []
  let texts: string[] = []
  let chars = around_chars
  const end = (): void => {
    if (texts.length > 0) frames.push(`{"type":"classes","classes":[${texts.join(',')}]}`)
    texts = []
    chars = around_chars
  }
  for (const text of classes) {
    if (texts.length === CLASSES_PER_FRAME_MAX || chars + text.length + 1 > FRAME_BYTES_MAX) end()
    texts.push(text)
    chars += text.length + 1
  }
  end()
  return frames
}
