/** What was learned of classes of programs, and how `learned` orders by it. */
import { useState } from 'hono/jsx/dom'
import { ask, segment } from '../api.ts'
import { ClassCurve, KnownClass, pageOf } from '../api-types.ts'
import { ChartBox } from '../charts/chart-box.tsx'
import { count, seconds } from '../format.ts'
import { useLoaded } from '../loaded.ts'
import { Show } from '../parts/show.tsx'
import { Loading } from '../parts/states.tsx'
import { Heads, Num, Table } from '../parts/table.tsx'
import { TenantChoice } from '../parts/tenant-choice.tsx'
import { classLink } from '../route.ts'

export function ClassesView({ tenants }: { tenants: readonly string[] }) {
  const [chosen, setChosen] = useState<string | null>(null)
  const tenant = chosen ?? tenants[0] ?? ''
  return (
    <>
      <div class="tools">
        <h1>Classes</h1>
        <TenantChoice tenants={tenants} tenant={tenant} choose={setChosen} />
      </div>
      <p class="help">
        Programs of one app, or with the same system prompt and tools, form a class. What its programs needed tells how
        much the next one will.
      </p>
      {tenant === '' ? <Loading what="tenants" /> : <Known tenant={tenant} />}
    </>
  )
}

const pair = (text: (n: number | null) => string, { p50, p90 }: KnownClass['calls']) => `${text(p50)} / ${text(p90)}`

function Known({ tenant }: { tenant: string }) {
  const path = `/admin/v1/classes?tenant=${segment(tenant)}&limit=100`
  const loaded = useLoaded(path, (signal) => ask(path, pageOf(KnownClass), { signal }))
  return <Show of={loaded} what="classes" show={({ data }) => <ClassTable tenant={tenant} classes={data} />} />
}

function ClassTable({ tenant, classes }: { tenant: string; classes: readonly KnownClass[] }) {
  if (classes.length === 0)
    return <p class="state">Nothing is known yet. A class appears when its first program has ended.</p>
  return (
    <Table
      label="Classes"
      heads={[
        'Class',
        ['Ended', 'number'],
        ['Output tokens, p50 / p90', 'number'],
        ['Calls, p50 / p90', 'number'],
        ['Charged service, p50 / p90', 'number'],
      ]}
    >
      {classes.map((one) => (
        <tr key={one.class}>
          <th scope="row">
            <a href={classLink(tenant, one.class)}>{one.class}</a>
          </th>
          <Num>{count(one.ends)}</Num>
          <Num>{pair(count, one.output_tokens)}</Num>
          <Num>{pair(count, one.calls)}</Num>
          <Num>{pair(seconds, one.service_s)}</Num>
        </tr>
      ))}
    </Table>
  )
}

export function ClassView({ tenant, name }: { tenant: string; name: string }) {
  const path = `/admin/v1/classes/${segment(tenant)}/${segment(name)}`
  const loaded = useLoaded(path, (signal) => ask(path, ClassCurve, { signal }))
  return (
    <>
      <h1>{name}</h1>
      <Show
        of={loaded}
        what="the class"
        show={({ ends, index, tools }) => (
          <>
            <p class="help">
              {`${ends === 1 ? '1 program' : `${count(ends)} programs`} of tenant ${tenant} ${ends === 1 ? 'has' : 'have'} ended. A program starts at the left and moves right with its output: where the index is lower, it runs first.`}
            </p>
            <ChartBox
              label="Index and expected output by output tokens so far; the table below has the figures"
              data={index}
              make={(charts, element) => charts.curve(element)}
            />
            <CurveTable points={index} />
            <ToolTable tools={tools} />
          </>
        )}
      />
    </>
  )
}

type Curve = (typeof ClassCurve)['_output']

function CurveTable({ points }: { points: Curve['index'] }) {
  return (
    <details>
      <summary>{points.length} points of the curve</summary>
      <table>
        <Heads
          heads={[
            ['Output tokens so far', 'number'],
            ['Index', 'number'],
            ['Still expected', 'number'],
          ]}
        />
        <tbody>
          {points.map((point) => (
            <tr key={point.output_tokens}>
              <Num>{count(point.output_tokens)}</Num>
              <Num>{point.index.toPrecision(3)}</Num>
              <Num>{count(point.expected_remaining_tokens)}</Num>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  )
}

function ToolTable({ tools }: { tools: Curve['tools'] }) {
  if (tools.length === 0) return null
  return (
    <>
      <h2>Between its calls</h2>
      <Table label="Tools" heads={['Tool', ['Uses', 'number'], ['Takes, p50 / p90', 'number']]}>
        {tools.map((tool) => (
          <tr key={`${tool.kind} ${tool.name}`}>
            <th scope="row">{tool.name ?? (tool.kind === 'other' ? 'rare tools' : 'no named tool')}</th>
            <Num>{count(tool.uses)}</Num>
            <Num>{pair(seconds, tool.duration_s)}</Num>
          </tr>
        ))}
      </Table>
    </>
  )
}
