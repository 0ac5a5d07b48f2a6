/** Which view is shown: the part of the address after `#`, so that links and the back button work. Pure but for the hook. */
import { useEffect, useState } from 'hono/jsx/dom'

const VIEWS = [
  'live',
  'ended',
  'trends',
  'spend',
  'applications',
  'engines',
  'tenants',
  'classes',
  'capacity',
  'audit',
] as const

export type Route =
  | { view: (typeof VIEWS)[number] }
  | { view: 'program'; tenant: string; program: string }
  | { view: 'class'; tenant: string; name: string }
  | { view: 'application'; tenant: string; id: string }
  | { view: 'reference'; page: string }

export function routeOf(hash: string): Route {
  const [view = '', first, second] = hash.replace(/^#\/?/, '').split('/').map(decoded)
  if (view === 'programs' && first !== undefined && second !== undefined) {
    return { view: 'program', tenant: first, program: second }
  }
  if (view === 'classes' && first !== undefined && second !== undefined) {
    return { view: 'class', tenant: first, name: second }
  }
  if (view === 'applications' && first !== undefined && second !== undefined) {
    return { view: 'application', tenant: first, id: second }
  }
  if (view === 'reference') return { view, page: first ?? '' }
  return { view: VIEWS.find((one) => one === view) ?? 'live' }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    // A link that was cut short is shown as it is.
    return part
  }
}

export const programLink = (tenant: string, program: string) =>
  `#/programs/${encodeURIComponent(tenant)}/${encodeURIComponent(program)}`

export const classLink = (tenant: string, name: string) =>
  `#/classes/${encodeURIComponent(tenant)}/${encodeURIComponent(name)}`

export const applicationLink = (tenant: string, id: string) =>
  `#/applications/${encodeURIComponent(tenant)}/${encodeURIComponent(id)}`

/** `page`: an operation or a schema, as the reference names it. */
export const referenceLink = (page: string) => `#/reference/${encodeURIComponent(page)}`

export function useRoute(): Route {
  const [route, setRoute] = useState<Route>(() => routeOf(location.hash))
  useEffect(() => {
    const changed = () => {
      setRoute(routeOf(location.hash))
      scrollTo(0, 0)
    }
    addEventListener('hashchange', changed)
    return () => removeEventListener('hashchange', changed)
  }, [])
  return route
}
