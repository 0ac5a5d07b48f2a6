/** One program: what it is, its calls as a graph and over time, and for each call where it ran and why. */
import { useEffect, useMemo, useState } from 'hono/jsx/dom'
import type { FcfsWaits } from '../../src/protocol/fcfs-waits.ts'
import type { LivePosition, LiveProgram } from '../../src/protocol/live.ts'
import { ShownCall, ShownProgram } from '../../src/protocol/shown-program.ts'
import { ask, segment } from '../api.ts'
import { pageOf } from '../api-types.ts'
import { callGraph } from '../charts/call-graph.ts'
import { GraphFigure } from '../charts/graph-figure.tsx'
import { Timeline } from '../charts/timeline.tsx'
import { count, dateTime, handledText, positionText, rankText, reasonText, seconds, share } from '../format.ts'
import { useLoaded } from '../loaded.ts'
import { ConfirmedAction } from '../parts/confirm.tsx'
import { FcfsQuestion, fcfsTexts } from '../parts/fcfs-question.tsx'
import { Fact, Failure, Loading } from '../parts/states.tsx'
import { type Head, Num, Table } from '../parts/table.tsx'
import { WeightAction } from '../parts/weight.tsx'
import { classLink } from '../route.ts'

/** Calls that are shown, the first ones. */
const CALLS_MAX = 500
const PAGE = 100
/** The live view tells of a change before the program has its last record. */
const SETTLE_MS = 1_500

const pathOf = (tenant: string, program: string, isOperator: boolean): string =>
  isOperator ? `/admin/v1/tenants/${segment(tenant)}/programs/${segment(program)}` : `/v1/programs/${segment(program)}`

async function load(path: string, signal: AbortSignal) {
  const program = await ask(path, ShownProgram, { signal })
  const calls: ShownCall[] = []
  let cursor: string | null = null
  do {
    const after: string = cursor === null ? '' : `&cursor=${segment(cursor)}`
    const page: { data: ShownCall[]; next_cursor: string | null } = await ask(
      `${path}/calls?limit=${PAGE}${after}`,
      pageOf(ShownCall),
      { signal },
    )
    calls.push(...page.data)
    cursor = page.next_cursor
  } while (cursor !== null && calls.length < CALLS_MAX)
  return { program, calls, has_more: cursor !== null }
}

interface ProgramProps {
  tenant: string
  program: string
  isOperator: boolean
  /** Its row in the live view; null: it does not run, or is not shown there. */
  row: LiveProgram | null
}

export function ProgramView({ tenant, program: id, isOperator, row }: ProgramProps) {
  const path = pathOf(tenant, id, isOperator)
  const { value, failure, reload } = useLoaded(path, (signal) => load(path, signal))
  const change = row === null ? 'none' : `${row.run} ${row.calls} ${row.open_calls} ${row.service_s}`
  useEffect(() => {
    reload()
    const timer = setTimeout(reload, SETTLE_MS)
    return () => clearTimeout(timer)
  }, [change])
  if (value === null)
    return failure === null ? <Loading what="the program" /> : <Failure reason={failure} retry={reload} />
  const position = row?.detail?.position ?? null
  return <Shown {...{ tenant, isOperator, path, reload, position }} {...value} />
}

/** Spans of the timeline, by the names of their styles. */
const LEGEND = [
  ['wait', 'wait'],
  ['prefill', 'prefill'],
  ['decode', 'decode'],
  ['preempted', 'preempted'],
  ['swapped', 'preempted, context moved out'],
  ['tool', 'tool'],
  ['tool moved', 'tool, context moved out'],
  ['tool dropped', 'tool, context discarded'],
] as const

interface ShownProps {
  tenant: string
  program: ShownProgram
  calls: ShownCall[]
  has_more: boolean
  isOperator: boolean
  path: string
  reload: () => void
  /** Of its open call, as the live view has it. */
  position: LivePosition | null
}

function Shown({ tenant, program, calls, has_more, isOperator, path, reload, position }: ShownProps) {
  const [chosen, setChosen] = useState<string | null>(null)
  const [fcfs, setFcfs] = useState<FcfsWaits | null>(null)
  const graph = useMemo(() => callGraph(calls), [calls])
  const end = async () => {
    await ask(path, ShownProgram, { method: 'DELETE' })
    reload()
    return 'Ended. Its open calls are cancelled.'
  }
  return (
    <>
      <div class="tools">
        <h1>{program.id}</h1>
        <span class={`now ${program.activity ?? ''}`}>
          {program.state === 'ended' ? `ended, ${program.end_reason ?? ''}` : (program.activity ?? 'no call yet')}
        </span>
        {program.state === 'running' ? (
          <>
            <WeightAction program={program} path={path} done={reload} />
            <ConfirmedAction
              name="End program"
              question={`End ${program.id}? Its open calls are cancelled, and their clients get an error.`}
              act={end}
              isGrave
            />
          </>
        ) : null}
      </div>
      <p class="help">
        {isOperator ? `Tenant ${tenant}, class ` : 'Class '}
        {isOperator ? <a href={classLink(tenant, program.class)}>{program.class}</a> : program.class}
        {`, started ${dateTime(program.started_at)}`}
        {program.ended_at === null ? '' : `, ended ${dateTime(program.ended_at)}`}
        {program.weight === null || program.weight === 1 ? '' : `, weight ${program.weight}`}
      </p>
      {position === null ? null : <p>Its open call: {positionText(position)}.</p>}
      <dl class="facts">
        <Fact
          name="Service (wall)"
          value={seconds(program.service_wall_s)}
          note="engine steps in which its calls ran"
        />
        <Fact
          name="Service (charged)"
          value={seconds(program.service_s)}
          note={`what orders it; critical path ${seconds(program.critical_path_s)}`}
        />
        <Fact
          name="Wait"
          value={seconds(program.wait_s)}
          note={`summed over calls, ${program.preemptions} preemptions`}
        />
        <Fact
          name="Cached"
          value={share(program.cached_tokens, program.prompt_tokens)}
          note={`of ${count(program.prompt_tokens)} prompt tokens`}
        />
        <Fact name="Output" value={count(program.output_tokens)} note={`tokens in ${program.calls} calls`} />
      </dl>
      {calls.length === 0 ? (
        <p class="state">It has made no call yet.</p>
      ) : (
        <>
          <h2>Calls</h2>
          <p class="help">
            From left to right: what depends on what, with the wall time of each call. A dashed line is a tool. The
            critical path is marked: the longest chain by charged service.
          </p>
          <GraphFigure graph={graph} chosen={chosen} choose={setChosen} />
          <h2>Timeline</h2>
          <p class="help legend">
            {LEGEND.map(([kind, text]) => (
              <span key={kind}>
                <i class={kind} /> {text}
              </span>
            ))}
          </p>
          <p class="help">Point at a span to read it, or click it to find its call below.</p>
          <Timeline graph={graph} choose={setChosen} />
          <FcfsQuestion path={path} waits={fcfs} told={setFcfs} />
          <CallTable calls={calls} chosen={chosen} fcfs={fcfs} />
          {has_more ? <p class="help">The first {calls.length} calls are shown.</p> : null}
        </>
      )}
    </>
  )
}

const HEADS: readonly Head[] = [
  ...['Call', 'Engine', 'Why there'],
  ...['Wait', 'Service (wall)', 'Service (charged)', 'Cached', 'Output', 'Rank'].map(
    (name) => [name, 'number'] as const,
  ),
  ...['Then', 'Outcome'],
]

interface CallTableProps {
  calls: readonly ShownCall[]
  chosen: string | null
  fcfs: FcfsWaits | null
}

function CallTable({ calls, chosen, fcfs }: CallTableProps) {
  const waits = fcfs === null ? null : fcfsTexts(fcfs)
  const heads = waits === null ? HEADS : HEADS.toSpliced(4, 0, ['Wait, first come first served', 'number'])
  return (
    <Table label="Calls" heads={heads}>
      {calls.map((call, at) => {
        const lease = call.leases.at(-1)
        return (
          <tr key={call.id} class={call.id === chosen ? 'chosen' : ''}>
            <th scope="row" class="whole" title={call.id}>
              {at + 1} <small>{call.thread}</small>
            </th>
            <td class="whole">{lease === undefined ? '–' : `${lease.engine} · ${lease.region}`}</td>
            <td class="text">{reasonText(lease?.reason)}</td>
            <Num>{seconds(call.wait_s)}</Num>
            {waits === null ? null : <Num>{waits.get(call.id) ?? 'unknown'}</Num>}
            <Num>{seconds(call.service_wall_s)}</Num>
            <Num>{seconds(call.service_s)}</Num>
            <Num>{share(call.cached_tokens, call.prompt_tokens)}</Num>
            <Num>{count(call.output_tokens)}</Num>
            <td class="number" title="A lower rank or level runs first. – : not known, or its engine goes by arrival">
              {rankText(call.rank, call.expected_remaining_tokens) ?? '–'}
            </td>
            <td class="text">{toolText(call)}</td>
            <td class="text">{outcomeText(call)}</td>
          </tr>
        )
      })}
    </Table>
  )
}

function outcomeText({ state, error_code, outcome, resumed_tokens }: ShownCall): string {
  const ended = state === 'open' ? 'open' : (error_code ?? outcome ?? '–')
  return resumed_tokens === 0 ? ended : `${ended}, went on at another engine after ${count(resumed_tokens)} tokens`
}

function toolText({ tools, tool_s, expected_tool_s, kv }: ShownCall): string {
  const names = tools.map(({ name }) => name).join(', ')
  if (names === '' && tool_s === null) return '–'
  const expected = expected_tool_s === null ? '' : ` (expected ${seconds(expected_tool_s)})`
  const handled = kv === null ? '' : `, ${handledText(kv.handling)}`
  return `${names === '' ? 'pause' : names} ${seconds(tool_s)}${expected}${handled}`
}
