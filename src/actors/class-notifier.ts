/**
 * Tells a class what a program of it had, once the archive has the run. An end is told until the class has confirmed it,
 * and nothing waits for that: what the class does not take at once is stored here and told again by the alarm.
 *
 * A program's last record often comes after its end. So a run with open leases is told when their records have come, and
 * after LATE_RECORDS_MS without them.
 */
import { z } from 'zod'
import { type BackoffBounds, backoffMs } from '../core/backoff.ts'
import { type EndedProgram, endedProgram } from '../core/classes/ended-program.ts'
import type { ProgramRows } from '../core/program/program-state.ts'
import { TOOLS_PER_TURN_MAX, TURNS_PER_PROGRAM_MAX } from '../core/tools/program-turn.ts'
import { logFailure } from '../platform/log.ts'
import { Id, ToolName } from '../protocol/index.ts'
import type { ClassRpc } from './contracts.ts'

export const LATE_RECORDS_MS = 30_000
/** Wait for the class's answer before the end is stored. */
const ANSWER_MS = 200
/** The same for an end that is stored. */
const RETRY_ANSWER_MS = 5_000
const RETRY: BackoffBounds = { min_ms: 60_000, max_ms: 60 * 60_000 }
/** After so many a class does without the end. */
export const CLASS_TRIES_MAX = 10
/** Ends of one program that wait. Past it the oldest is dropped. */
export const CLASS_ENDS_WAITING_MAX = 64

const Figure = z.number().nonnegative()
const Turn = z.object({
  ...{ position: Figure, last: ToolName.nullable(), output_tokens: Figure },
  tools: z
    .array(z.object({ name: ToolName.nullable(), duration_us: Figure.nullable(), answer_tokens: Figure.nullable() }))
    .max(TOOLS_PER_TURN_MAX)
    .readonly(),
})
const Facts = z.object({
  ...{ output_tokens: Figure, calls: Figure, path_us: Figure, service_us: Figure, tool_us: Figure },
  later_prompt_tokens: Figure,
  turns: z.array(Turn).max(TURNS_PER_PROGRAM_MAX).readonly().optional(),
}) satisfies z.ZodType<EndedProgram>
const WaitingEnd = z.object({
  run: Id,
  class: Id,
  program: Facts,
  open: z.boolean(),
  failures: z.number().int().nonnegative(),
  due_ms: z.number(),
})
type WaitingEnd = z.infer<typeof WaitingEnd>
export const WaitingEnds = z.array(WaitingEnd).max(CLASS_ENDS_WAITING_MAX)
export type WaitingEnds = z.infer<typeof WaitingEnds>

/** What a run tells about its class as far as its records have come. */
export interface ClassEnd {
  program: EndedProgram
  /** Leases of the run may have no record yet. */
  open: boolean
}

export function classEndOf(rows: ProgramRows): ClassEnd {
  return { program: endedProgram(rows), open: rows.leases.some(({ state }) => state === 'open') }
}

/** A run without output says nothing, and takes no place among its tenant's classes. */
export function tellsOfClass({ program, open }: ClassEnd): boolean {
  return open || program.output_tokens > 0
}

interface Surroundings {
  actorOf(name: string): Pick<ClassRpc, 'ended'>
  /** Stores what waits. */
  store(waiting: WaitingEnds): Promise<void>
  waitUntil(work: Promise<void>): void
}

export class ClassNotifier {
  readonly #around: Surroundings
  readonly #waiting = new Map<string, WaitingEnd>()

  constructor(around: Surroundings) {
    this.#around = around
  }

  /** `waiting` as stored. */
  restore(waiting: WaitingEnds): void {
    for (const end of waiting) this.#waiting.set(end.run, end)
  }

  get isEmpty(): boolean {
    return this.#waiting.size === 0
  }

  /** When the alarm must call `due`. Infinite: nothing waits. */
  get due_ms(): number {
    return Math.min(Number.POSITIVE_INFINITY, ...[...this.#waiting.values()].map(({ due_ms }) => due_ms))
  }

  /** The archive has the run. Resolves when the class has its end, or storage has it for later. Never rejects. */
  async ended(run: string, name: string, end: ClassEnd): Promise<void> {
    if (!tellsOfClass(end)) return
    const waiting = { run, class: name, ...end, failures: 0, due_ms: Date.now() + LATE_RECORDS_MS }
    if (!end.open) {
      if (await this.#tell(waiting, ANSWER_MS)) return
      this.#failed(waiting)
    }
    this.#waiting.set(run, waiting)
    const [oldest] = this.#waiting.keys()
    if (this.#waiting.size > CLASS_ENDS_WAITING_MAX && oldest !== undefined) this.#waiting.delete(oldest)
    await this.#store()
  }

  /** Records came after the run was archived. */
  archiveChanged(run: string, rows: ProgramRows): void {
    const waiting = this.#waiting.get(run)
    if (waiting === undefined) return
    Object.assign(waiting, classEndOf(rows))
    if (!waiting.open) this.#around.waitUntil(this.#tellWaiting(waiting))
  }

  /** Tells what is due. */
  async due(now_ms: number): Promise<void> {
    const due = [...this.#waiting.values()].filter(({ due_ms }) => due_ms <= now_ms)
    for (const waiting of due) await this.#tellWaiting(waiting)
  }

  async #tellWaiting(waiting: WaitingEnd): Promise<void> {
    waiting.open = false
    const isDone = !tellsOfClass(waiting) || (await this.#tell(waiting, RETRY_ANSWER_MS))
    if (isDone || waiting.failures >= CLASS_TRIES_MAX) this.#waiting.delete(waiting.run)
    else this.#failed(waiting)
    await this.#store()
  }

  #failed(waiting: WaitingEnd): void {
    waiting.failures += 1
    waiting.due_ms = Date.now() + backoffMs(waiting.failures, RETRY, Math.random())
  }

  async #tell({ run, class: name, program }: WaitingEnd, limit_ms: number): Promise<boolean> {
    const { promise: late, reject } = Promise.withResolvers<never>()
    const timer = setTimeout(() => reject(new Error(`no answer in ${limit_ms} ms`)), limit_ms)
    try {
      await Promise.race([this.#around.actorOf(name).ended({ run, program }), late])
      return true
    } catch (error) {
      logFailure('class_not_told', error, { run })
      return false
    } finally {
      clearTimeout(timer)
    }
  }

  async #store(): Promise<void> {
    await this.#around.store([...this.#waiting.values()]).catch((error: unknown) => {
      logFailure('class_ends_not_kept', error)
    })
  }
}
