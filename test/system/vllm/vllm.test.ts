/**
 * vLLM itself under the whole system: control plane, agent, vLLM 0.32.0 with Switchyard's scheduler and a real model on the CPU,
 * called with the openai package. One system serves all of it, since a start of vLLM takes a minute. The last test ends it.
 * `test/long/vllm` kills it, and takes other policies.
 */
import { describe, expect, it } from 'vitest'
import { groupMembers } from '../../../gpu-agent/src/fronts/vllm/process/process-group.ts'
import { answers } from './answers.ts'
import { apis } from './apis.ts'
import { programs } from './programs.ts'
import { resumption } from './resumption.ts'
import { vllmForTests } from './running-vllm.ts'

const running = vllmForTests()

it('the system describes itself as one with vLLM', async () => {
  expect(running().system.dev).toMatchObject({ engine: 'vllm', policy: 'plas', model: 'smollm2-135m-instruct' })
  expect(running().state?.pid).toBeGreaterThan(1)
})
describe('a call', () => answers(running))
describe('the APIs', () => apis(running))
describe('an answer that another engine began', () => resumption(running))
describe('programs', () => programs(running))
it('the plug-in has decided and never failed', async () => {
  const { decisions, failures } = await running().counts()
  expect(decisions).toBeGreaterThan(0)
  expect(failures).toBe(0)
})
it('leaves no process when it is stopped', async () => {
  expect((await running().counts()).failures).toBe(0)
  const { pid } = running().state ?? { pid: 0 }
  expect(groupMembers(pid).length).toBeGreaterThan(0)
  await running().system.down()
  expect(groupMembers(pid)).toEqual([])
  expect(running().state).toBeUndefined()
})
