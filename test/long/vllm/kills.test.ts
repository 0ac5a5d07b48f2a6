/**
 * kill -9 of vLLM, of the agent and of the control plane under calls, an application and a batch. In this order: the first leaves a vLLM
 * that runs, which the second needs.
 */
import { describe, expect, it } from 'vitest'
import { vllmForTests } from '../../system/vllm/running-vllm.ts'
import { applications } from './applications.ts'
import { crashes } from './crashes.ts'

const running = vllmForTests()

describe('a call', () => crashes(running))
describe('offline work', () => applications(running))
it('the plug-in never failed', async () => {
  expect((await running().counts()).failures).toBe(0)
})
