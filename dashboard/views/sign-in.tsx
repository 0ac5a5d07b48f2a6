/** The first thing that a visitor sees: what this is, and where the key is. */
import { useState } from 'hono/jsx/dom'
import { ask } from '../api.ts'
import { Session } from '../api-types.ts'

export function SignIn({ signedIn }: { signedIn: (session: Session) => void }) {
  const [failure, setFailure] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  const submit = (event: Event) => {
    event.preventDefault()
    const key = new FormData(event.currentTarget as HTMLFormElement).get('key')
    setBusy(true)
    ask('/page/session', Session, { method: 'POST', body: { key: String(key ?? '').trim() } }).then(
      signedIn,
      (error: unknown) => {
        setBusy(false)
        setFailure(error instanceof Error ? error.message : String(error))
      },
    )
  }
  return (
    <main class="sign-in">
      <h1>Switchyard</h1>
      <p class="lead">
        Agents run <em>programs</em>: many model calls with tools in between. Switchyard sees the whole program. It lets
        short programs pass long ones, and sends each call to the engine that already holds the program’s context.
      </p>
      <p>Sign in to watch your programs run, see why a call waits, and step in.</p>
      <form onSubmit={submit}>
        <label for="key">Key</label>
        <input
          id="key"
          name="key"
          type="password"
          autocomplete="current-password"
          required
          aria-describedby="key-help"
          aria-invalid={failure === null ? undefined : 'true'}
        />
        <button type="submit" disabled={isBusy}>
          Sign in
        </button>
        <p id="key-help" class="help">
          <code>npm run up</code> prints an API key, <code>sk-sy-…</code>, which shows the programs of its tenant. The
          operator’s key, <code>sy-admin-…</code>, shows everything: it is <code>adminKey</code> in{' '}
          <code>.switchyard/dev.json</code>.
        </p>
        {failure === null ? null : (
          <p class="failure" role="alert">
            {failure}
          </p>
        )}
      </form>
    </main>
  )
}
