/** The frame: who is signed in, where one can go, and whether what is shown is current. */
import { useEffect, useState, useSyncExternalStore } from 'hono/jsx/dom'
import { ApiFailure, ask, send } from './api.ts'
import { Session } from './api-types.ts'
import { clock } from './format.ts'
import { type Connection, LiveStore } from './live/live-store.ts'
import { Failure, Loading } from './parts/states.tsx'
import { CapacityView } from './planning/capacity.tsx'
import { type Route, useRoute } from './route.ts'
import { ApplicationsView, ApplicationView } from './views/applications.tsx'
import { AuditView } from './views/audit.tsx'
import { ClassesView, ClassView } from './views/classes.tsx'
import { EndedView } from './views/ended.tsx'
import { EnginesView } from './views/engines.tsx'
import { LiveView } from './views/live.tsx'
import { ProgramView } from './views/program.tsx'
import { ReferenceView } from './views/reference.tsx'
import { SignIn } from './views/sign-in.tsx'
import { SpendView } from './views/spend.tsx'
import { TenantsView } from './views/tenants.tsx'
import { TrendsView } from './views/trends.tsx'

type SignedIn =
  | { status: 'asking' }
  | { status: 'out' }
  | { status: 'in'; session: Session }
  | { status: 'failed'; reason: string }

export function App() {
  const [signed, setSigned] = useState<SignedIn>({ status: 'asking' })
  const look = () => {
    setSigned({ status: 'asking' })
    ask('/page/session', Session).then(
      (session) => setSigned({ status: 'in', session }),
      (error: unknown) => {
        const isOut = error instanceof ApiFailure && (error.status === 401 || error.status === 403)
        setSigned(isOut ? { status: 'out' } : { status: 'failed', reason: (error as Error).message })
      },
    )
  }
  useEffect(look, [])
  const route = useRoute()
  // What the API takes is no secret: /openapi.json is open too.
  if (route.view === 'reference' && signed.status !== 'in') return <OpenReference page={route.page} />
  if (signed.status === 'asking') return <Loading what="Switchyard" />
  if (signed.status === 'failed') return <Failure reason={signed.reason} retry={look} />
  if (signed.status === 'out') return <SignIn signedIn={(session) => setSigned({ status: 'in', session })} />
  return <Frame session={signed.session} signedOut={() => setSigned({ status: 'out' })} />
}

function OpenReference({ page }: { page: string }) {
  return (
    <>
      <header class="bar">
        <a class="mark" href="#/live">
          Switchyard
        </a>
        <nav aria-label="Views">
          <a href="#/live">Sign in</a>
        </nav>
      </header>
      <main>
        <ReferenceView page={page} />
      </main>
    </>
  )
}

const OPERATOR_VIEWS = [
  ['live', 'Live'],
  ['ended', 'Ended'],
  ['trends', 'Trends'],
  ['spend', 'Spend'],
  ['applications', 'Applications'],
  ['engines', 'Engines'],
  ['tenants', 'Tenants'],
  ['classes', 'Classes'],
  ['capacity', 'Capacity'],
  ['audit', 'Audit'],
  ['reference', 'API'],
] as const
const TENANT_VIEWS = [
  ['live', 'Live'],
  ['ended', 'Ended'],
  ['trends', 'Trends'],
  ['spend', 'Spend'],
  ['applications', 'Applications'],
  ['capacity', 'Capacity'],
  ['reference', 'API'],
] as const

/** Under which view a thing is found. */
const BELONGS: Readonly<Partial<Record<Route['view'], string>>> = {
  program: 'live',
  class: 'classes',
  application: 'applications',
}

function Frame({ session, signedOut }: { session: Session; signedOut: () => void }) {
  const [store] = useState(() => new LiveStore())
  const { state, connection } = useSyncExternalStore(store.subscribe, store.read)
  const route = useRoute()
  useEffect(() => {
    // A hidden page asks for nothing.
    const seen = () => (document.hidden ? store.stop() : store.start())
    seen()
    document.addEventListener('visibilitychange', seen)
    addEventListener('online', seen)
    return () => {
      document.removeEventListener('visibilitychange', seen)
      removeEventListener('online', seen)
      store.stop()
    }
  }, [])
  useEffect(() => {
    if (connection.status === 'signed_out') signedOut()
  }, [connection.status])
  const signOut = () => {
    store.stop()
    send('/page/session', { method: 'DELETE' }).then(signedOut, signedOut)
  }
  const views = session.role === 'operator' ? OPERATOR_VIEWS : TENANT_VIEWS
  const current = BELONGS[route.view] ?? route.view
  return (
    <>
      <header class="bar">
        <a class="mark" href="#/live">
          Switchyard
        </a>
        <nav aria-label="Views">
          {views.map(([view, name]) => (
            <a key={view} href={`#/${view}`} aria-current={view === current ? 'page' : undefined}>
              {name}
            </a>
          ))}
        </nav>
        <ConnectionNote connection={connection} />
        <span class="who">{session.role === 'operator' ? 'operator' : session.tenant}</span>
        <button type="button" class="quiet" onClick={signOut}>
          Sign out
        </button>
      </header>
      <main>
        <View route={route} session={session} state={state} connection={connection} />
      </main>
    </>
  )
}

function ConnectionNote({ connection }: { connection: Connection }) {
  if (connection.status === 'live') {
    return (
      <span class="connection live" role="status">
        live
      </span>
    )
  }
  const text =
    connection.status === 'offline'
      ? `offline: as of ${clock(connection.since_ms)}, reconnecting. ${connection.reason}`
      : 'connecting …'
  return (
    <span class={`connection ${connection.status}`} role="status">
      {text}
    </span>
  )
}

interface Shown {
  route: Route
  session: Session
  state: LiveStore['snapshot']['state']
  connection: Connection
}

function View({ route, session, state, connection }: Shown) {
  const isOperator = session.role === 'operator'
  const own = session.tenant ?? ''
  if (route.view === 'program') {
    const { tenant, program } = route
    const row = state.tenants.get(tenant)?.programs.get(program) ?? null
    const key = JSON.stringify([tenant, program])
    return <ProgramView key={key} tenant={tenant} program={program} isOperator={isOperator} row={row} />
  }
  const tenants = isOperator ? [...state.tenants.keys()] : [own]
  if (route.view === 'ended') return <EndedView tenants={tenants} isOperator={isOperator} />
  if (route.view === 'capacity') return <CapacityView own={isOperator ? null : own} />
  if (route.view === 'trends') return <TrendsView tenants={tenants} isOperator={isOperator} />
  if (route.view === 'spend') return <SpendView tenants={tenants} isOperator={isOperator} />
  if (route.view === 'applications') return <ApplicationsView tenants={tenants} isOperator={isOperator} />
  if (route.view === 'application') {
    return <ApplicationView key={route.id} tenant={route.tenant} id={route.id} isOperator={isOperator} />
  }
  if (route.view === 'reference') return <ReferenceView page={route.page} />
  if (isOperator && route.view === 'engines') return <EnginesView pools={state.pools} />
  if (isOperator && route.view === 'tenants') return <TenantsView state={state} />
  if (isOperator && route.view === 'classes') return <ClassesView tenants={tenants} />
  if (isOperator && route.view === 'class') return <ClassView tenant={route.tenant} name={route.name} />
  if (isOperator && route.view === 'audit') return <AuditView />
  return <LiveView state={state} connection={connection} isOperator={isOperator} />
}
