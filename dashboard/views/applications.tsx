/** Offline applications: how far their nodes have come, and when each worked and is expected to. */
import { useEffect, useRef, useState } from 'hono/jsx/dom'
import { ask, segment, send } from '../api.ts'
import { Application, Applications } from '../api-types.ts'
import { count, dateTime } from '../format.ts'
import { useLoaded } from '../loaded.ts'
import { Show } from '../parts/show.tsx'
import { Meter } from '../parts/states.tsx'
import { Num, Table } from '../parts/table.tsx'
import { TenantChoice } from '../parts/tenant-choice.tsx'
import { Wide } from '../parts/wide.tsx'
import { applicationLink } from '../route.ts'

/** A running application is looked at again so often while it is shown. */
const LOOK_EVERY_MS = 5_000

const baseOf = (tenant: string, isOperator: boolean) =>
  `${isOperator ? `/admin/v1/tenants/${segment(tenant)}` : '/v1'}/applications`

const at = (s: number | null): string => dateTime(s === null ? null : new Date(s * 1000).toISOString())

export function ApplicationsView({ tenants, isOperator }: { tenants: readonly string[]; isOperator: boolean }) {
  const [chosen, setChosen] = useState<string | null>(null)
  const tenant = chosen ?? tenants[0] ?? ''
  const path = baseOf(tenant, isOperator)
  const loaded = useLoaded(path, (signal) =>
    tenant === '' ? Promise.resolve(null) : ask(`${path}?limit=100`, Applications, { signal }),
  )
  return (
    <>
      <div class="tools">
        <h1>Applications</h1>
        {isOperator ? <TenantChoice tenants={tenants} tenant={tenant} choose={setChosen} /> : null}
        <button type="button" class="quiet" onClick={loaded.reload}>
          Load again
        </button>
      </div>
      <p class="help">Graphs of several models over fixed inputs, which run when no urgent call waits.</p>
      <Show of={loaded} what="applications" show={({ data }) => <List tenant={tenant} applications={data} />} />
    </>
  )
}

function List({ tenant, applications }: { tenant: string; applications: readonly Application[] }) {
  if (applications.length === 0) {
    return (
      <section class="state">
        <p>None was sent yet. docs/applications.md has an example:</p>
        <pre>npx switchyard apps create examples/applications/answer-and-judge.json</pre>
      </section>
    )
  }
  return (
    <Table
      label="Applications"
      heads={['Application', 'Status', 'Calls', ['Failed', 'number'], 'Sent', 'Ended or expected to']}
    >
      {applications.map((one) => (
        <tr key={one.id}>
          <th scope="row">
            <a href={applicationLink(tenant, one.id)}>{one.name}</a>
          </th>
          <td>{one.status}</td>
          <td>
            <Done counts={one.request_counts} />
          </td>
          <Num>{count(one.request_counts.failed)}</Num>
          <td>{at(one.created_at)}</td>
          <td>{endText(one)}</td>
        </tr>
      ))}
    </Table>
  )
}

function Done({ counts: { completed, total } }: { counts: { completed: number; total: number } }) {
  return <Meter part={completed} whole={total} label={`${count(completed)} of ${count(total)}`} />
}

function endText({ ended_at, estimated_end_at }: Application): string {
  if (ended_at !== null) return at(ended_at)
  return estimated_end_at === null ? 'not known yet' : `about ${at(estimated_end_at)}`
}

export function ApplicationView({ tenant, id, isOperator }: { tenant: string; id: string; isOperator: boolean }) {
  const path = `${baseOf(tenant, isOperator)}/${segment(id)}`
  const loaded = useLoaded(path, async (signal) => {
    const [application, chart] = await Promise.all([
      ask(path, Application, { signal }),
      send(`${path}/gantt.svg`, { accept: 'image/svg+xml', signal }).then((response) => response.text()),
    ])
    return { application, chart }
  })
  const isOver = loaded.value === null || loaded.value.application.ended_at !== null
  useEffect(() => {
    if (isOver) return
    const timer = setInterval(() => {
      if (!document.hidden) loaded.reload()
    }, LOOK_EVERY_MS)
    return () => clearInterval(timer)
  }, [isOver])
  return (
    <Show
      of={loaded}
      what="the application"
      show={({ application, chart }) => <Shown application={application} chart={chart} />}
    />
  )
}

function Shown({ application, chart }: { application: Application; chart: string }) {
  return (
    <>
      <h1>{application.name}</h1>
      <p class="help">{`${application.status}, sent ${at(application.created_at)}, ${application.ended_at === null ? 'end expected' : 'ended'} ${endText(application)}`}</p>
      <h2>Plan and reality</h2>
      <p class="help">
        When each node worked, in seconds since it began.
        {application.ended_at === null ? ' Pale: until when it is expected to.' : ''} Where hosts were planned, a row
        above says when they were to work.
      </p>
      <Gantt svg={chart} />
      <h2>Nodes</h2>
      <Table
        label="Nodes"
        heads={['Node', 'Model', 'Done', ['Running', 'number'], ['Waiting', 'number'], ['Failed', 'number']]}
      >
        {application.nodes.map((node) => (
          <tr key={node.id}>
            <th scope="row">{node.id}</th>
            <td>{node.model}</td>
            <td>
              <Done counts={{ completed: node.completed, total: node.requests }} />
            </td>
            <Num>{count(node.running)}</Num>
            <Num>{count(node.waiting)}</Num>
            <Num>{count(node.failed)}</Num>
          </tr>
        ))}
      </Table>
    </>
  )
}

/** The chart takes its ink from the text around it, so it is put into the document. The page's policy runs no script in it. */
function Gantt({ svg }: { svg: string }) {
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const drawn = new DOMParser().parseFromString(svg, 'image/svg+xml').documentElement
    drawn.setAttribute('role', 'img')
    drawn.setAttribute('aria-label', 'When each node worked, and until when it is expected to')
    box.current?.replaceChildren(document.importNode(drawn, true))
  }, [svg])
  return (
    <Wide label="Plan and reality">
      <div class="gantt" ref={box} />
    </Wide>
  )
}
