/** What was learned of classes of programs, and how `learned` orders by it. */
import { useState } from 'hono/jsx/dom'
import { ask, segment } from '../api.ts'
import { ClassCurve, KnownClass, pageOf } from '../api-types.ts'
import { ChartBox } from '../charts/chart-box.tsx'
import { count, seconds } from '../format.ts'
import { useLoaded } from '../loaded.ts'
import { Failure, Loading } from '../parts/states.tsx'
import { TenantChoice } from '../parts/tenant-choice.tsx'
import { Wide } from '../parts/wide.tsx'
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

function Known({ tenant }: { tenant: string }) {
  const path = `/admin/v1/classes?tenant=${segment(tenant)}&limit=100`
  const { value, failure, reload } = useLoaded(path, (signal) => ask(path, pageOf(KnownClass), { signal }))
  if (value === null) return failure === null ? <Loading what="classes" /> : <Failure reason={failure} retry={reload} />
  if (value.data.length === 0)
    return <p class="state">Nothing is known yet. A class appears when its first program has ended.</p>
  return (
    <Wide label="Classes">
      <table>
        <thead>
          <tr>
            <th scope="col">Class</th>
            <th scope="col" class="number">
              Ended
            </th>
            <th scope="col" class="number">
              Output tokens, p50 / p90
            </th>
            <th scope="col" class="number">
              Calls, p50 / p90
            </th>
            <th scope="col" class="number">
              Service, p50 / p90
            </th>
          </tr>
        </thead>
        <tbody>
          {value.data.map((one) => (
            <tr key={one.class}>
              <th scope="row">
                <a href={classLink(tenant, one.class)}>{one.class}</a>
              </th>
              <td class="number">{count(one.ends)}</td>
              <td class="number">{`${count(one.output_tokens.p50)} / ${count(one.output_tokens.p90)}`}</td>
              <td class="number">{`${count(one.calls.p50)} / ${count(one.calls.p90)}`}</td>
              <td class="number">{`${seconds(one.service_s.p50)} / ${seconds(one.service_s.p90)}`}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  )
}

export function ClassView({ tenant, name }: { tenant: string; name: string }) {
  const path = `/admin/v1/classes/${segment(tenant)}/${segment(name)}`
  const { value, failure, reload } = useLoaded(path, (signal) => ask(path, ClassCurve, { signal }))
  return (
    <>
      <h1>{name}</h1>
      {value === null && failure === null ? <Loading what="the class" /> : null}
      {failure === null ? null : <Failure reason={failure} retry={reload} />}
      {value === null ? null : (
        <>
          <p class="help">
            {`${count(value.ends)} programs of tenant ${tenant} have ended. A program starts at the left and moves right with its output: where the index is lower, it runs first.`}
          </p>
          <ChartBox
            label="Index and expected output by output tokens so far; the table below has the figures"
            data={value.index}
            make={(charts, element) => charts.curve(element)}
          />
          <CurveTable points={value.index} />
          <ToolTable tools={value.tools} />
        </>
      )}
    </>
  )
}

type Curve = (typeof ClassCurve)['_output']

function CurveTable({ points }: { points: Curve['index'] }) {
  return (
    <details>
      <summary>{points.length} points of the curve</summary>
      <table>
        <thead>
          <tr>
            <th scope="col" class="number">
              Output tokens so far
            </th>
            <th scope="col" class="number">
              Index
            </th>
            <th scope="col" class="number">
              Still expected
            </th>
          </tr>
        </thead>
        <tbody>
          {points.map((point) => (
            <tr key={point.output_tokens}>
              <td class="number">{count(point.output_tokens)}</td>
              <td class="number">{point.index.toPrecision(3)}</td>
              <td class="number">{count(point.expected_remaining_tokens)}</td>
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
      <table>
        <thead>
          <tr>
            <th scope="col">Tool</th>
            <th scope="col" class="number">
              Uses
            </th>
            <th scope="col" class="number">
              Takes, p50 / p90
            </th>
          </tr>
        </thead>
        <tbody>
          {tools.map((tool) => (
            <tr key={`${tool.kind} ${tool.name}`}>
              <th scope="row">{tool.name ?? (tool.kind === 'other' ? 'rare tools' : 'no named tool')}</th>
              <td class="number">{count(tool.uses)}</td>
              <td class="number">{`${seconds(tool.duration_s.p50)} / ${seconds(tool.duration_s.p90)}`}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  )
}
