/** What is shown in place of content: loading, failed, or empty. */

export function Loading({ what }: { what: string }) {
  return (
    <p class="state" role="status">
      Loading {what} …
    </p>
  )
}

export function Failure({ reason, retry }: { reason: string; retry: () => void }) {
  return (
    <div class="state failure" role="alert">
      <p>{reason}</p>
      <button type="button" onClick={retry}>
        Try again
      </button>
    </div>
  )
}

export function Fact({ name, value, note }: { name: string; value: string; note?: string | undefined }) {
  return (
    <div class="fact">
      <dt>{name}</dt>
      <dd>
        {value}
        {note === undefined ? null : <small>{note}</small>}
      </dd>
    </div>
  )
}

/** A share of something, 0 to 1, as a bar with its words beside it. */
export function Meter({ part, whole, label }: { part: number; whole: number; label: string }) {
  const percent = whole > 0 ? Math.min(100, (100 * part) / whole) : 0
  return (
    <span class="meter">
      <svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
        <rect class="track" width="100" height="6" />
        <rect class="fill" width={percent} height="6" />
      </svg>
      <span>{label}</span>
    </span>
  )
}
