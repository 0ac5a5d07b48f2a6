/**
 * An application and a batch on a real vLLM at the same time, with kill -9 of the agent, of vLLM and of the control plane in the middle: nothing is
 * lost, repeated or out of order.
 */
import { toFile } from 'openai'
import { expect, it } from 'vitest'
import { eventually } from '../../system/support/system.ts'
import { type RunningVllm, START_MS } from '../../system/vllm/running-vllm.ts'

const LINES = 10
const APPLICATION = 'on-vllm'
const ENDS_MS = 300_000
const TIMEOUT_MS = START_MS + ENDS_MS

const lines = Array.from({ length: LINES }, (_, n) => ({
  ...{ id: `line-${n}`, n },
  parts: Array.from({ length: 1 + (n % 3) }, (_part, at) => `Part ${at} of ${n}.`),
}))
const NOTES = lines.flatMap(({ parts }, at) => parts.map((_, part) => [at + 1, part + 1]))

export function applications(running: () => RunningVllm): void {
  const says = (content: string) => ({ messages: [{ role: 'user', content }], max_tokens: 6, temperature: 0 })

  async function createApplication(): Promise<void> {
    const { model } = running().system.dev
    const nodes = [
      { id: 'answer', model, requests: 'lines', body: says('Count from {{n}} upwards.') },
      { id: 'notes', model, documents: { field: 'parts' }, body: says('So far: {{previous}} Next: {{chunk}} Sum up.') },
      {
        id: 'judge',
        model,
        from: { nodes: ['answer', 'notes'] },
        body: says('{{answer.output}} or {{notes.output}}?'),
      },
    ]
    const body = JSON.stringify({ id: APPLICATION, name: APPLICATION, nodes, input: { lines } })
    const created = await running().system.fetch('/v1/applications', { method: 'POST', body })
    expect(created.status, await created.text()).toBeLessThan(300)
  }

  async function createBatch(): Promise<string> {
    const client = running().system.client()
    const input = lines.map(({ id, n }) => {
      const body = { model: running().system.dev.model, ...says(`Say ${n} in words.`) }
      return JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/chat/completions', body })
    })
    const file = await client.files.create({
      file: await toFile(Buffer.from(input.join('\n')), 'in.jsonl'),
      purpose: 'batch',
    })
    const made = {
      input_file_id: file.id,
      endpoint: '/v1/chat/completions' as const,
      completion_window: '24h' as const,
    }
    return (await client.batches.create(made)).id
  }

  interface Running {
    status: string
    request_counts: { total: number; completed: number; failed: number }
  }

  /** Undefined: the control plane was killed a moment ago. */
  async function look(path: string): Promise<Running | undefined> {
    try {
      return (await (await running().system.fetch(path)).json()) as Running
    } catch {
      return undefined
    }
  }

  async function completedOf(...paths: string[]): Promise<number> {
    const states = await Promise.all(paths.map(look))
    return states.reduce((sum, state) => sum + (state?.request_counts?.completed ?? 0), 0)
  }

  it(
    'kill -9 of the agent, of vLLM and of the control plane: an application and a batch go on',
    async () => {
      await createApplication()
      const batch = await createBatch()
      const paths = [`/v1/applications/${APPLICATION}`, `/v1/batches/${batch}`]
      const reach = (calls: number) =>
        eventually(
          `${calls} calls have run`,
          async () => (await completedOf(...paths)) >= calls || undefined,
          TIMEOUT_MS,
        )
      await reach(4)
      const agent = running().agentPid
      process.kill(agent, 'SIGKILL')
      await eventually('another agent runs', () => (running().agentPid === agent ? undefined : true), START_MS)
      await reach(14)
      const { pid } = running().state ?? { pid: 0 }
      process.kill(-pid, 'SIGKILL')
      await reach(24)
      expect(running().state?.pid).not.toBe(pid)
      process.kill(running().system.dev.controlPlanePid, 'SIGKILL')
      const calls = LINES + NOTES.length + LINES
      const whole = (total: number) => ({ status: 'completed', request_counts: { total, completed: total, failed: 0 } })
      for (const [path, total] of [[paths[0], calls] as const, [paths[1], LINES] as const]) {
        const ended = await eventually(
          `${path} has ended`,
          async () => {
            const state = await look(path ?? '')
            return state === undefined || ['validating', 'running', 'in_progress', 'finalizing'].includes(state.status)
              ? undefined
              : state
          },
          ENDS_MS,
        )
        expect(ended).toMatchObject(whole(total))
      }
      const outputOf = async (node: string) => {
        const text = await (await running().system.fetch(`${paths[0]}/nodes/${node}/output`)).text()
        const found = text
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line) as Record<string, unknown>)
        expect(found.every(({ output, error }) => typeof output === 'string' && error === null)).toBe(true)
        return found
      }
      const in_order = lines.map((_, at) => at + 1)
      expect((await outputOf('answer')).map(({ line }) => line)).toEqual(in_order)
      expect((await outputOf('judge')).map(({ line }) => line)).toEqual(in_order)
      expect((await outputOf('notes')).map(({ line, chunk }) => [line, chunk])).toEqual(NOTES)
      const client = running().system.client()
      const { output_file_id } = await client.batches.retrieve(batch)
      const output = await (await client.files.content(output_file_id ?? '')).text()
      const ids = output
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line).custom_id)
      expect(ids).toEqual(lines.map(({ id }) => id))
    },
    2 * TIMEOUT_MS,
  )
}
