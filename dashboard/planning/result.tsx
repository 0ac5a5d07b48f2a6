/** What a capacity plan says: in a sentence, against what was measured, and as a table. */
import { count, seconds } from '../format.ts'
import { Wide } from '../parts/wide.tsx'
import type { Measure, PlannedFleet, PlannedSize, PlanResult } from './messages.ts'

interface Planned {
  result: PlanResult
  measure: Measure
}

/** Beyond it, the profile says little about the engines that served. */
const PROFILE_ERROR_SHARE_MAX = 0.25

const shown = (measure: Measure, p95: number): string =>
  measure === 'program_s' ? seconds(p95) : `${p95.toFixed(1)} ms a token`

export function CapacityResult({ result, measure }: Planned) {
  const { sentence, advice, fleets } = result
  const hasCost = fleets.some(({ cost_per_hour }) => cost_per_hour !== null)
  return (
    <>
      <p class="lead" role="status">
        <strong>{sentence}</strong>
        {advice === 'more_engines' ? ' Allow more engines, or choose another profile or a higher target.' : null}
        {advice === 'floor'
          ? ' More engines hardly change it: tools and the speed of a single call are what is left.'
          : null}
        {advice === 'more_traffic' ? ' Plan with a longer time to see.' : null}
      </p>
      <Measured result={result} measure={measure} />
      <Wide label="Fleets">
        <table>
          <thead>
            <tr>
              <th scope="col">Profile</th>
              <th scope="col">Policy</th>
              <th scope="col">Balancer</th>
              <th scope="col" class="number">
                Engines
              </th>
              <th scope="col" class="number">
                GPUs
              </th>
              {hasCost ? (
                <th scope="col" class="number">
                  Cost an hour
                </th>
              ) : null}
              <th scope="col">95th percentile by number of engines</th>
            </tr>
          </thead>
          <tbody>
            {fleets.map((fleet) => (
              <tr key={`${fleet.policy} ${fleet.balancer}`}>
                <td>{fleet.profile}</td>
                <td>{fleet.policy}</td>
                <td>{fleet.balancer}</td>
                <td class="number">{fleet.fewest_engines ?? `over ${most(fleet).engines}`}</td>
                <td class="number">{fleet.gpus ?? '–'}</td>
                {hasCost ? <td class="number">{fleet.cost_per_hour?.toFixed(2) ?? '–'}</td> : null}
                <td class="text">
                  {fleet.played.map(({ engines, p95 }) => `${engines}: ${shown(measure, p95)}`).join(', ')}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
    </>
  )
}

function Measured({ result, measure }: Planned) {
  const { served, p95_as_served, too_long, fleets } = result
  const differs = served.p95 <= 0 || Math.abs(p95_as_served / served.p95 - 1) > PROFILE_ERROR_SHARE_MAX
  return (
    <p class="help">
      {`${count(served.programs)} programs with ${count(served.calls)} calls began within ${seconds(served.span_s)}, on ${plural(served.engines, 'engine')}. `}
      {`Measured: ${shown(measure, served.p95)}. Played on as many engines of ${fleets[0]?.profile}: ${shown(measure, p95_as_served)}. `}
      {differs
        ? 'They differ. To plan with the engines that you have, measure their profile (npm run calibrate) and give its file. '
        : null}
      {too_long > 0
        ? `${plural(too_long, 'program')} had calls longer than the profile’s context and were left out.`
        : null}
    </p>
  )
}

const plural = (number: number, one: string): string => `${count(number)} ${one}${number === 1 ? '' : 's'}`

const most = ({ played }: PlannedFleet): PlannedSize => played.at(-1) as PlannedSize
