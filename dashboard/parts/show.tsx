/** What a view has loaded: until then that it loads, and when that failed, why. */
import type { Child } from 'hono/jsx/dom'
import { Failure, Loading } from './states.tsx'

interface ShowProps<T> {
  of: { value: T | null; failure: string | null; reload: () => void }
  what: string
  /** Of an answer that came, and that stays while another is loaded. */
  show: (value: T) => Child
}

export function Show<T>({ of: { value, failure, reload }, what, show }: ShowProps<T>) {
  return (
    <>
      {failure === null ? null : <Failure reason={failure} retry={reload} />}
      {value === null ? failure === null ? <Loading what={what} /> : null : show(value)}
    </>
  )
}
