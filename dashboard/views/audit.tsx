/** Every change that an operator made, the latest first. */
import { useState } from 'hono/jsx/dom'
import type * as z from 'zod'
import { ask, segment } from '../api.ts'
import { AuditEntry, pageOf } from '../api-types.ts'
import { dateTime } from '../format.ts'
import { useLoaded } from '../loaded.ts'
import { Show } from '../parts/show.tsx'
import { Table } from '../parts/table.tsx'

export function AuditView() {
  const [cursor, setCursor] = useState<string | null>(null)
  const path = `/admin/v1/audit?limit=50${cursor === null ? '' : `&cursor=${segment(cursor)}`}`
  const loaded = useLoaded(path, (signal) => ask(path, pageOf(AuditEntry), { signal }))
  return (
    <>
      <h1>Audit</h1>
      <Show
        of={loaded}
        what="the audit"
        show={({ data, next_cursor }) => (
          <>
            <Entries entries={data} />
            <div class="buttons">
              {cursor === null ? null : (
                <button type="button" class="quiet" onClick={() => setCursor(null)}>
                  Latest
                </button>
              )}
              {next_cursor === null ? null : (
                <button type="button" class="quiet" onClick={() => setCursor(next_cursor)}>
                  Older
                </button>
              )}
            </div>
          </>
        )}
      />
    </>
  )
}

function Entries({ entries }: { entries: readonly z.infer<typeof AuditEntry>[] }) {
  if (entries.length === 0) return <p class="state">No operator has changed anything yet.</p>
  return (
    <Table label="Audit" heads={['At', 'Who', 'Did', 'To', 'What changed']}>
      {entries.map((entry) => (
        <tr key={entry.id}>
          <td class="whole">{dateTime(entry.at)}</td>
          <td class="whole">{entry.actor}</td>
          <td>{entry.action}</td>
          <td class="text">{entry.object}</td>
          <td class="text">{changeText(entry.before, entry.after)}</td>
        </tr>
      ))}
    </Table>
  )
}

type Row = Record<string, unknown> | null

function changeText(before: Row, after: Row): string {
  if (after === null) return '–'
  if (before === null) return 'created'
  const changed = Object.keys(after).filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
  return changed.map((name) => `${name}: ${JSON.stringify(before[name])} → ${JSON.stringify(after[name])}`).join(', ')
}
