/**
 * Programs that ended here as lines of a trace (docs/traces.md): what a capacity plan plays. A tenant asks for its own
 * programs, the operator for those of any tenant. The caller passes the tenant.
 *
 * A page is bounded by its calls as well: each program's calls are read from R2.
 */
import { z } from '@hono/zod-openapi'
import { archiveDatabases, archiveStoreOfRun } from '../actors/archive-store.ts'
import type { ProgramSummary } from '../core/program/program-state.ts'
import { type TracedRun, tracedRun } from '../core/program/traced-run.ts'
import type { Env } from '../env.ts'
import { apiError } from '../platform/api-error.ts'
import { Id } from '../protocol/index.ts'
import { archivedRun, archivedSince, type EndedPosition } from '../store/archive.ts'
import { fromStore } from '../store/database.ts'
import { atOnce } from './bounded-concurrency.ts'
import { Seconds, Tokens } from './measured-json.ts'
import { PageQuery } from './program-schemas.ts'
import { invalidCursor, type listJson, pageOf, pageStart } from './route-parts.ts'

/** Calls of all programs of a page, and at least one program. */
export const TRACED_CALLS_MAX = 5_000
/** A trace holds arrivals of a year. */
export const SINCE_DAYS_MAX = 366
const DAY_MS = 24 * 60 * 60_000
const SINCE_DEFAULT_MS = 60 * 60_000
/** A Worker may have six connections open. */
const READS_AT_ONCE = 6
/** Of a label in the line format. */
const LABEL_CHARS_MAX = 128

const Position = z.tuple([z.number().int(), Id, Id])

export const TraceQuery = PageQuery.extend({
  since: z.iso
    .datetime()
    .optional()
    .openapi({ description: 'Programs that began then or later, and have ended. Left out: an hour ago' }),
})

const TracedCallJson = z.object({
  thread: z.number().int().nonnegative(),
  parents: z.array(z.number().int().nonnegative()).openapi({ description: 'Positions of calls before it' }),
  prompt_tokens: Tokens,
  shared_prefix_tokens: Tokens.openapi({
    description: 'How many of its first tokens repeat an earlier call: estimated',
  }),
  output_tokens: Tokens,
  tool: z.string().nullable(),
  tool_seconds: Seconds.nullable().openapi({ description: 'From its end to the start of its earliest child' }),
})

export const TracedProgram = z
  .object({
    object: z.literal('program.trace'),
    id: z.string().openapi({ description: 'The run, which is unique' }),
    program: z.string(),
    workload: z.string().openapi({ description: 'The app, else the class' }),
    app_prefix_tokens: Tokens.openapi({ description: 'What the engine found in its cache of the first prompt' }),
    arrival_seconds: Seconds.openapi({ description: 'From `since` to its first call' }),
    response_s: Seconds.openapi({ description: 'From its first call to the end of its last, tools included' }),
    output_tokens: Tokens,
    prompt_tokens: Tokens,
    cached_tokens: Tokens,
    engines: z.array(z.string()),
    models: z.array(z.string()),
    calls: z.array(TracedCallJson),
  })
  .openapi('TracedProgram')
type TracedProgram = z.infer<typeof TracedProgram>

type TracedPage =
  | { status: 'page'; list: ReturnType<typeof listJson<TracedProgram>> }
  | { status: 'refused'; with: Response }

/** Programs without a call that an engine served are left out, so a page may have fewer than its limit. */
export async function tracedPage(
  env: Env,
  tenant: string,
  { since, limit, cursor }: z.infer<typeof TraceQuery>,
): Promise<TracedPage> {
  const now_ms = Date.now()
  const since_ms = since === undefined ? now_ms - SINCE_DEFAULT_MS : Date.parse(since)
  if (since_ms < now_ms - SINCE_DAYS_MAX * DAY_MS) return { status: 'refused', with: tooLongAgo() }
  const start = pageStart(cursor, Position)
  if (start.status === 'unreadable') return { status: 'refused', with: invalidCursor() }
  const position = start.position === null ? null : positionOf(start.position)
  const found = await fromStore(async () =>
    archivedSince(await archiveDatabases(env, tenant), tenant, since_ms, position, limit + 1),
  )
  const taken = within(found, limit)
  const page = pageOf(found, taken, identity, ({ ended_at_ms, program, run }) => [ended_at_ms ?? 0, program, run])
  const read = await atOnce(page.data, READS_AT_ONCE, async (summary) => ({
    summary,
    run: await fromStore(() => archivedRun(archiveStoreOfRun(env, tenant, summary.run), summary)),
  }))
  const data = read.flatMap(({ summary, run }) => {
    const traced = run.status === 'found' ? tracedRun(run.rows) : null
    return traced === null ? [] : [lineOf(summary, traced, since_ms)]
  })
  return { status: 'page', list: { ...page, data } }
}

/** How many of them make a page. */
function within(found: readonly ProgramSummary[], limit: number): number {
  let calls = 0
  const beyond = found.findIndex((one) => {
    calls += one.calls
    return calls > TRACED_CALLS_MAX
  })
  return Math.min(limit, beyond === -1 ? limit : Math.max(1, beyond))
}

function lineOf({ program, run, app, class: of_class }: ProgramSummary, traced: TracedRun, since_ms: number) {
  const { arrived_at_ms, response_ms, ...rest } = traced
  return {
    ...{ object: 'program.trace' as const, id: run, program, workload: (app ?? of_class).slice(0, LABEL_CHARS_MAX) },
    arrival_seconds: Math.max(0, arrived_at_ms - since_ms) / 1000,
    response_s: response_ms / 1000,
    ...rest,
  } satisfies TracedProgram
}

const identity = (summary: ProgramSummary): ProgramSummary => summary

function positionOf([ended_at_ms, program, run]: z.infer<typeof Position>): EndedPosition {
  return { ended_at_ms, program, run }
}

function tooLongAgo(): Response {
  const message = `\`since\` is more than ${SINCE_DAYS_MAX} days ago.`
  return apiError(400, { message, param: 'since', code: 'invalid_value' })
}
