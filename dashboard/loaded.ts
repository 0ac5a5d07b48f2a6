/** Something that a view loads: nothing yet, an answer, or a failure, with the last answer kept while another is loaded. */
import { useCallback, useEffect, useState } from 'hono/jsx/dom'

export interface Loaded<T> {
  value: T | null
  failure: string | null
  reload: () => void
}

/** Loads again when `key` changes. */
export function useLoaded<T>(key: string, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [found, setFound] = useState<{ key: string; value: T | null; failure: string | null }>({
    ...{ key, value: null, failure: null },
  })
  const [turn, setTurn] = useState(0)
  useEffect(() => {
    const stop = new AbortController()
    load(stop.signal).then(
      (value) => {
        if (!stop.signal.aborted) setFound({ key, value, failure: null })
      },
      (error: unknown) => {
        if (stop.signal.aborted) return
        const failure = error instanceof Error ? error.message : String(error)
        setFound((last) => ({ key, value: last.key === key ? last.value : null, failure }))
      },
    )
    return () => stop.abort()
  }, [key, turn])
  const reload = useCallback(() => setTurn((last) => last + 1), [])
  const isOwn = found.key === key
  return { value: isOwn ? found.value : null, failure: isOwn ? found.failure : null, reload }
}
