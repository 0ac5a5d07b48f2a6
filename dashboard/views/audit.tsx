/** Every change that an operator made, the latest first. */
import { useState } from 'hono/jsx/dom'
import { ask, segment } from '../api.ts'
import { AuditEntry, pageOf } from '../api-types.ts'
import { dateTime } from '../format.ts'
import { useLoaded } from '../loaded.ts'
import { Failure, Loading } from '../parts/states.tsx'
import { Wide } from '../parts/wide.tsx'

export function AuditView() {
  const [cursor, setCursor] = useState<string | null>(null)
  const path = `/admin/v1/audit?limit=50${cursor === null ? '' : `&cursor=${segment(cursor)}`}`
  const { value, failure, reload } = useLoaded(path, (signal) => ask(path, pageOf(AuditEntry), { signal }))
  return (
    <>
      <h1>Audit</h1>
      {failure === null ? null : <Failure reason={failure} retry={reload} />}
      {value === null && failure === null ? <Loading what="the audit" /> : null}
      {value !== null && value.data.length === 0 ? <p class="state">No operator has changed anything yet.</p> : null}
      {value === null || value.data.length === 0 ? null : (
        <>
          <Wide label="Audit">
            <table>
              <thead>
                <tr>
                  <th scope="col">At</th>
                  <th scope="col">Who</th>
                  <th scope="col">Did</th>
                  <th scope="col">To</th>
                  <th scope="col">What changed</th>
                </tr>
              </thead>
              <tbody>
                {value.data.map((entry) => (
                  <tr key={entry.id}>
                    <td>{dateTime(entry.at)}</td>
                    <td>{entry.actor}</td>
                    <td>{entry.action}</td>
                    <td>{entry.object}</td>
                    <td>{changeText(entry.before, entry.after)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Wide>
          <div class="buttons">
            {cursor === null ? null : (
              <button type="button" class="quiet" onClick={() => setCursor(null)}>
                Latest
              </button>
            )}
            {value.next_cursor === null ? null : (
              <button type="button" class="quiet" onClick={() => setCursor(value.next_cursor)}>
                Older
              </button>
            )}
          </div>
        </>
      )}
    </>
  )
}

type Row = Record<string, unknown> | null

function changeText(before: Row, after: Row): string {
  if (after === null) return '–'
  if (before === null) return 'created'
  const changed = Object.keys(after).filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
  return changed.map((name) => `${name}: ${JSON.stringify(before[name])} → ${JSON.stringify(after[name])}`).join(', ')
}
