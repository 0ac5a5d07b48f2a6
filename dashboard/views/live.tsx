/** What runs: the sums, the engines, and every running program. */
import { memo, useMemo, useState } from 'hono/jsx/dom'
import { count, positionText, rankText, seconds, share } from '../format.ts'
import {
  type Activity,
  activityOf,
  type LiveState,
  type Order,
  type Row,
  rowsOf,
  totalsOf,
} from '../live/live-state.ts'
import type { Connection } from '../live/live-store.ts'
import { Fact, Loading } from '../parts/states.tsx'
import { Heads } from '../parts/table.tsx'
import { useVisibleRows } from '../parts/visible-rows.ts'
import { programLink } from '../route.ts'
import { Pools } from './pools.tsx'

const ROW_PX = 34
/** Below it, the page says how to start some. `npm run up` itself leaves one behind: its trial call. */
const FEW_PROGRAMS = 3

interface LiveProps {
  state: LiveState
  connection: Connection
  isOperator: boolean
}

export function LiveView({ state, connection, isOperator }: LiveProps) {
  if (state.at_ms === 0) {
    return connection.status === 'offline' ? <p class="state">{connection.reason}</p> : <Loading what="programs" />
  }
  const totals = totalsOf(state)
  return (
    <>
      <h1 class="hidden">Live</h1>
      <p class="lead">
        Each row is one run of an agent. Programs that have had the least service go first, and each call returns to the
        engine that holds its program’s context.
      </p>
      <dl class="facts">
        <Fact
          name="Programs"
          value={count(totals.running)}
          note={`${totals.reasoning} reasoning, ${totals.acting} acting`}
        />
        {isOperator ? (
          <Fact
            name="Calls in seats"
            value={`${totals.in_seats} of ${totals.seats}`}
            note={`${totals.waiting} waiting`}
          />
        ) : null}
        <Fact name="Output" value={`${count(totals.tokens_per_s)} tokens/s`} note="settled, last 30 s" />
        <Fact
          name="Cached"
          value={share(totals.cached_tokens, totals.prompt_tokens)}
          note="of prompt tokens, not computed again"
        />
      </dl>
      {isOperator ? <Pools pools={state.pools} /> : null}
      <Programs state={state} isOperator={isOperator} running={totals.running} />
    </>
  )
}

function Programs({ state, isOperator, running }: { state: LiveState; isOperator: boolean; running: number }) {
  const [order, setOrder] = useState<Order>('newest')
  const [activity, setActivity] = useState<Activity>('all')
  const [text, setText] = useState('')
  const rows = useMemo(() => rowsOf(state, order, activity, text), [state, order, activity, text])
  if (running === 0) return <HowToStart title="No program is running" />
  return (
    <section aria-labelledby="programs">
      <div class="tools">
        <h2 id="programs">Running programs</h2>
        <label>
          Find
          <input type="search" value={text} onInput={(e) => setText((e.target as HTMLInputElement).value)} />
        </label>
        <label>
          Show
          <select value={activity} onChange={(e) => setActivity((e.target as HTMLSelectElement).value as Activity)}>
            <option value="all">all</option>
            <option value="reasoning">reasoning</option>
            <option value="acting">acting</option>
          </select>
        </label>
        <label>
          Sort
          <select value={order} onChange={(e) => setOrder((e.target as HTMLSelectElement).value as Order)}>
            <option value="newest">newest first</option>
            <option value="service">most charged</option>
            <option value="wait">longest wait</option>
          </select>
        </label>
      </div>
      <details class="help">
        <summary>What the columns say</summary>
        <p>
          Wall: how long engine steps lasted in which its calls ran. Charged: its own share of the work in them.
          Programs are compared by what they were charged. Order: how many of the tenant’s calls on the engine go before
          its open call, for how long it has waited, and by what it is ordered at this moment. Without one, in which
          level its last call came (Q1 goes first), or its rank (lower goes first) by the output that was expected.
        </p>
      </details>
      <ProgramTable rows={rows} now_ms={state.at_ms} isOperator={isOperator} />
      {rows.length === 0 ? <p class="state">No running program matches.</p> : null}
      {running > rows.length && text === '' && activity === 'all' ? (
        <p class="help">{running - rows.length} more run. The page shows the 1,000 of each tenant that started last.</p>
      ) : null}
      {running < FEW_PROGRAMS ? <HowToStart title="Run more" /> : null}
    </section>
  )
}

const HEADS = [
  ['Program', 'id'],
  ['Tenant', 'tenant'],
  ['Class', 'class'],
  ['Now', 'now'],
  ['Engine', 'engine'],
  ['Order', 'order'],
  ['Calls', 'number calls'],
  ['Wall', 'number service'],
  ['Charged', 'number charged'],
  ['Wait', 'number wait'],
  ['Cached', 'number cached'],
] as const

interface TableProps {
  rows: readonly Row[]
  now_ms: number
  isOperator: boolean
}

/** All rows have one height, so those out of view are two rows of empty space. */
function ProgramTable({ rows, now_ms, isOperator }: TableProps) {
  const { list, from, to } = useVisibleRows(rows.length, ROW_PX)
  return (
    <table class={isOperator ? 'programs with-tenant' : 'programs'} aria-rowcount={rows.length + 1}>
      <Heads heads={HEADS.filter(([, name]) => isOperator || name !== 'tenant')} />
      <tbody ref={list}>
        <Space rows={from} />
        {rows.slice(from, to).map(({ key, tenant, program }, at) => (
          <ProgramRow
            key={key}
            tenant={tenant}
            program={program}
            at={from + at}
            now_ms={isUsingTool(program) ? now_ms : 0}
            isOperator={isOperator}
          />
        ))}
        <Space rows={rows.length - to} />
      </tbody>
    </table>
  )
}

function Space({ rows }: { rows: number }) {
  if (rows === 0) return null
  return (
    <tr class="space">
      <td colspan={HEADS.length} style={{ height: `${rows * ROW_PX}px` }} />
    </tr>
  )
}

interface RowProps {
  tenant: string
  program: Row['program']
  at: number
  /** 0 where nothing in it goes on by itself. */
  now_ms: number
  isOperator: boolean
}

/** Only how long a tool has run changes by itself. */
const isUsingTool = (program: Row['program']): boolean =>
  activityOf(program) === 'acting' && program.detail?.tools[0] !== undefined

/** Made again only where one of its properties is another: of a thousand programs few change in a second. */
const ProgramRow = memo(({ tenant, program, at, now_ms, isOperator }: RowProps) => {
  const { detail } = program
  const activity = activityOf(program)
  return (
    <tr aria-rowindex={at + 2}>
      <th scope="row" class="id">
        <a href={programLink(tenant, program.id)}>{program.id}</a>
      </th>
      {isOperator ? <td class="tenant">{tenant}</td> : null}
      <td class="class" title={program.class}>
        {program.app ?? program.class}
      </td>
      <td class={`now ${activity}`}>{nowText(activityText(activity, program.open_calls), detail, now_ms)}</td>
      <td class="engine" title={placeText(detail)}>
        {placeText(detail)}
      </td>
      <td class="order" title={orderText(program)}>
        {orderText(program)}
      </td>
      <td class="number calls">{count(program.calls)}</td>
      <td class="number service">{seconds(detail?.service_wall_s)}</td>
      <td class="number charged">{seconds(program.service_s)}</td>
      <td class="number wait">{seconds(detail?.wait_s)}</td>
      <td class="number cached">{detail === null ? '–' : share(detail.cached_tokens, detail.prompt_tokens)}</td>
    </tr>
  )
})

function activityText(activity: 'reasoning' | 'acting' | 'new', open_calls: number): string {
  if (activity === 'reasoning') return open_calls > 1 ? `reasoning, ${open_calls} calls` : 'reasoning'
  return activity === 'acting' ? 'acting' : 'no call yet'
}

type Detail = Row['program']['detail']

const placeText = (detail: Detail): string =>
  detail === null || detail.engine === null ? '–' : `${detail.engine} · ${detail.region}`

/** `acting: search 3 s of ~5 s`. */
function nowText(activity: string, detail: Detail, now_ms: number): string {
  const [tool] = detail?.tools ?? []
  if (activity !== 'acting' || tool === undefined) return activity
  const ran_s = Math.max(0, (now_ms - Date.parse(tool.since)) / 1000)
  const expected = tool.expected_s === null ? '' : ` of ~${seconds(tool.expected_s)}`
  return `acting${tool.name === null ? '' : `: ${tool.name}`} ${seconds(ran_s)}${expected}`
}

/** Where its open call is, or where it stood when its latest call came, and why. */
function orderText({ detail }: Row['program']): string {
  if (detail?.position) return positionText(detail.position)
  const text = rankText(detail?.rank ?? null, detail?.expected_remaining_tokens ?? null)
  if (detail === null || text === null) return '–'
  const why = detail.expected_remaining_tokens === null ? ', by service' : ''
  const weight = detail.weight === null || detail.weight === 1 ? '' : `, weight ${detail.weight}`
  return `${text}${why}${weight}`
}

function HowToStart({ title }: { title: string }) {
  return (
    <section class="state">
      <h2>{title}</h2>
      <p>Start three agents at once and watch them here:</p>
      <pre>npm run demo</pre>
      <p>
        Or point any OpenAI or Anthropic client at <code>{location.origin}/v1</code> with an API key. Calls with the
        same <code>X-Program-Id</code> header are one program.
      </p>
    </section>
  )
}
