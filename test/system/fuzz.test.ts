/** A small run of `npm run fuzz`: every route of a whole system, with a hostile agent, and with schemathesis where it is installed. */
import { expect, it } from 'vitest'
import { faultsOf } from '../../lab/fuzz/api/command.ts'
import { fuzzApi } from '../../lab/fuzz/api/fuzz-api.ts'
import { schemathesisIsInstalled } from '../../lab/fuzz/api/schemathesis.ts'

const REQUESTS = 1_500
const EXAMPLES = 2

it('no drawn request is answered with a 500, a key or another tenant’s data', { timeout: 300_000 }, async () => {
  const examples_max = schemathesisIsInstalled() ? EXAMPLES : 0
  const budget = { seed: 11, requests: REQUESTS, minutes_max: 4, at_once: 8, examples_max, is_brief: true }
  const report = await fuzzApi({ ...budget, onProgress: () => undefined })
  expect(faultsOf(report)).toBeNull()
  // What it draws must get past the first check nearly everywhere.
  const routes = Object.keys(report.by_route).filter((route) => /^[A-Z]+ \//.test(route))
  expect(routes.length).toBeGreaterThan(50)
  expect(report.unreached.length, report.unreached.join(', ')).toBeLessThan(routes.length / 5)
  expect(report.hostile_agent.links).toBeGreaterThan(0)
  expect(report.hostile_agent.frames).toBeGreaterThan(report.hostile_agent.links)
})
