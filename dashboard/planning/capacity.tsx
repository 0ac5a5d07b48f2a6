/** How many engines the programs that ended here would need to meet a target: asked, played in a thread, and shown. */
import { useEffect, useRef, useState } from 'hono/jsx/dom'
import { ChartBox } from '../charts/chart-box.tsx'
import { Failure } from '../parts/states.tsx'
import type { Measure, PlanRequest, PlanResult } from './messages.ts'
import { CapacityResult } from './result.tsx'
import { PROGRAMS_MAX, planInThread, readServed } from './run-plan.ts'

const HOUR_MS = 3_600_000
const SINCE = [
  ['1', 'the last hour'],
  ['6', 'the last 6 hours'],
  ['24', 'the last day'],
  ['168', 'the last 7 days'],
] as const
const PROFILES = ['a100-8b', 'a100-70b-tp4', 'a100-180b-tp8', 'emulated-8b'] as const
const POLICIES = ['plas', 'learned', 'atlas', 'fcfs-program', 'fcfs'] as const
const BALANCERS = ['cost-aware', 'locality', 'least-used', 'affinity', 'round-robin'] as const
const ENGINES_MAX_DEFAULT = 64

type State =
  | { status: 'asking' }
  | { status: 'working'; what: string }
  | { status: 'planned'; result: PlanResult; measure: Measure; at_most: number; cut: boolean }
  | { status: 'failed'; reason: string }

export function CapacityView({ own }: { own: string | null }) {
  const [state, setState] = useState<State>({ status: 'asking' })
  const running = useRef<AbortController | null>(null)
  useEffect(() => () => running.current?.abort(), [])
  const plan = async (form: HTMLFormElement) => {
    running.current?.abort()
    const stop = new AbortController()
    running.current = stop
    const show = (next: State) => {
      if (!stop.signal.aborted) setState(next)
    }
    try {
      const asked = await askedOf(new FormData(form))
      show({ status: 'working', what: 'Reading programs …' })
      const { tenants, cut } = await readServed(own, asked.since, stop.signal, (read) =>
        show({ status: 'working', what: `Reading programs: ${read}` }),
      )
      if (tenants.length === 0) return show({ status: 'failed', reason: NOTHING })
      const answer = await planInThread({ ...asked.request, tenants }, stop.signal, ({ profile, engines }) =>
        show({ status: 'working', what: `Playing ${engines} engines of ${profile} …` }),
      )
      const { measure, at_most } = asked.request
      if (answer.kind === 'refused') show({ status: 'failed', reason: answer.reason })
      else show({ status: 'planned', result: answer.result, measure, at_most, cut })
    } catch (error) {
      show({ status: 'failed', reason: (error as Error).message })
    }
  }
  const stop = () => {
    running.current?.abort()
    setState({ status: 'asking' })
  }
  return (
    <>
      <h1>Capacity</h1>
      <p class="help">
        Plays the programs that ended here on simulated engines, with the scheduler and balancer that serve, and finds
        the fewest engines that meet a target. It runs in this browser.
      </p>
      <form
        class="tools"
        onSubmit={(event: Event) => {
          event.preventDefault()
          plan(event.currentTarget as HTMLFormElement)
        }}
      >
        <Choice name="since" label="Programs of" options={SINCE} />
        <label>
          95 % of programs within
          <input name="at_most" type="number" min="0.001" step="any" required value="60" />
        </label>
        <Choice
          name="measure"
          label="Unit"
          options={[
            ['ms_per_token', 'ms a token'],
            ['program_s', 'seconds'],
          ]}
        />
        <Choice name="profile" label="Engines" options={PROFILES.map((name) => [name, name] as const)} />
        <label>
          or a profile file
          <input name="file" type="file" accept=".json,application/json" />
        </label>
        <Choice
          name="policy"
          label="Policy"
          options={[['all', 'compare all'] as const, ...POLICIES.map((name) => [name, name] as const)]}
          chosen="plas"
        />
        <Choice name="balancer" label="Balancer" options={BALANCERS.map((name) => [name, name] as const)} />
        <label>
          At most
          <input name="engines_max" type="number" min="1" max="4096" value={ENGINES_MAX_DEFAULT} required />
          engines
        </label>
        <label>
          Cost of a GPU for an hour
          <input name="gpu_cost" type="number" min="0.000001" step="any" />
        </label>
        <label>
          Model
          <input name="model" type="text" placeholder="the only one" />
        </label>
        <button type="submit">Plan</button>
        {state.status === 'working' ? (
          <button type="button" class="quiet" onClick={stop}>
            Stop
          </button>
        ) : null}
      </form>
      {state.status === 'working' ? (
        <p class="state" role="status">
          {state.what}
        </p>
      ) : null}
      {state.status === 'failed' ? <Failure reason={state.reason} retry={stop} /> : null}
      {state.status === 'planned' ? (
        <>
          {state.cut ? (
            <p class="help">There are more than {PROGRAMS_MAX} programs: those that ended last were played.</p>
          ) : null}
          <CapacityResult {...state} />
          <ChartBox
            label={`95th percentile by number of engines. ${state.result.sentence} The table has the figures`}
            data={state}
            make={(charts, element) => charts.fleets(element)}
          />
        </>
      ) : null}
    </>
  )
}

const NOTHING =
  'No program that began then has ended. A program is here once its client has ended it, or half an hour after its last call.'

interface Options {
  name: string
  label: string
  options: readonly (readonly [string, string])[]
  chosen?: string
}

function Choice({ name, label, options, chosen }: Options) {
  return (
    <label>
      {label}
      <select name={name}>
        {options.map(([value, text]) => (
          <option key={value} value={value} selected={value === chosen}>
            {text}
          </option>
        ))}
      </select>
    </label>
  )
}

async function askedOf(form: FormData): Promise<{ since: string; request: Omit<PlanRequest, 'tenants'> }> {
  const text = (name: string): string => String(form.get(name) ?? '').trim()
  const number = (name: string): number => Number(text(name))
  const file = form.get('file')
  const own = file instanceof File && file.size > 0 ? { file: file.name, text: await file.text() } : null
  return {
    since: new Date(Date.now() - number('since') * HOUR_MS).toISOString(),
    request: {
      ...{ profile: own ?? { name: text('profile') }, balancer: text('balancer') },
      policies: text('policy') === 'all' ? [...POLICIES] : [text('policy')],
      measure: text('measure') === 'program_s' ? 'program_s' : 'ms_per_token',
      ...{ at_most: number('at_most'), engines_max: number('engines_max') },
      gpu_cost: text('gpu_cost') === '' ? null : number('gpu_cost'),
      model: text('model') === '' ? null : text('model'),
    },
  }
}
