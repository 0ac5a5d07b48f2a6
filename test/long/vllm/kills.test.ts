/**
 * kill -9 of vLLM, of the agent and of the control plane under calls, an application and a batch. In this order: the first leaves a vLLM
 * that runs, which the second needs.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { RunningVllm } from '../../system/vllm/running-vllm.ts'
import { applications } from './applications.ts'
import { crashes } from './crashes.ts'

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

describe('a call', () => crashes(running))
describe('offline work', () => applications(running))
it('the plug-in never failed', async () => {
  expect((await vllm.counts()).failures).toBe(0)
})
