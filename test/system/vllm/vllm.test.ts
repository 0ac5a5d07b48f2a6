/**
 * vLLM itself under the whole system: control plane, agent, vLLM 0.32.0 with Switchyard's scheduler and a real model on the CPU,
 * called with the openai package. One system serves all of it, since a start of vLLM takes a minute. The last test ends it.
 * `test/long/vllm` kills it, and takes other policies.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { groupMembers } from '../../../gpu-agent/src/fronts/vllm/process/process-group.ts'
import { answers } from './answers.ts'
import { apis } from './apis.ts'
import { programs } from './programs.ts'
import { resumption } from './resumption.ts'
import { RunningVllm } from './running-vllm.ts'

const INSTALL_AND_START_MS = 20 * 60_000

let vllm: RunningVllm
const running = () => vllm

beforeAll(async () => {
  vllm = await RunningVllm.start()
}, INSTALL_AND_START_MS)
afterAll(async () => {
  // Undefined where it did not start.
  await (vllm as RunningVllm | undefined)?.remove()
})

it('the system describes itself as one with vLLM', async () => {
  expect(vllm.system.dev).toMatchObject({ engine: 'vllm', policy: 'plas', model: 'smollm2-135m-instruct' })
  expect(vllm.state?.pid).toBeGreaterThan(1)
})
describe('a call', () => answers(running))
describe('the APIs', () => apis(running))
describe('an answer that another engine began', () => resumption(running))
describe('programs', () => programs(running))
it('the plug-in has decided and never failed', async () => {
  const { decisions, failures } = await vllm.counts()
  expect(decisions).toBeGreaterThan(0)
  expect(failures).toBe(0)
})
it('leaves no process when it is stopped', async () => {
  expect((await vllm.counts()).failures).toBe(0)
  const { pid } = vllm.state ?? { pid: 0 }
  expect(groupMembers(pid).length).toBeGreaterThan(0)
  await vllm.system.down()
  expect(groupMembers(pid)).toEqual([])
  expect(vllm.state).toBeUndefined()
})
