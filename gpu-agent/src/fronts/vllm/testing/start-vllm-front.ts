/** A VllmFront over a fabricated vLLM, with its ledger and counts at hand. */
import { expect, onTestFinished } from 'vitest'
import type { LedgerRow } from '../../../../engine/types.ts'
import type { LedgerSums } from '../../../outbox/record.ts'
import { until } from '../../../testing/harness.ts'
import type { ContextCounts, FrontCount, KvSwapCosts } from '../../engine-front.ts'
import { dispatched, user } from '../../testing/dispatched.ts'
import { RecordingSink } from '../../testing/recording-sink.ts'
import { VllmFront, type VllmFrontOptions } from '../vllm-front.ts'
import { type ScriptedRequest, ScriptedVllm } from './scripted-vllm.ts'

export interface FrontUnderTest {
  front: VllmFront
  vllm: ScriptedVllm
  rows: LedgerRow[]
  counted: FrontCount[]
  reports: string[]
  heard: string[]
  swap_costs: KvSwapCosts[]
  contexts: ContextCounts[]
  /** Serves a chat call; the fake has its request when `arrived` resolves. */
  serve(
    body?: Record<string, unknown>,
    claims?: Parameters<typeof dispatched>[2],
  ): { sink: RecordingSink; lease: string }
  ledger(lease: string): LedgerSums
}

export async function startFront(
  vllm: ScriptedVllm,
  options: Partial<Omit<VllmFrontOptions, 'server'>> = {},
): Promise<FrontUnderTest> {
  const rows: LedgerRow[] = []
  const counted: FrontCount[] = []
  const reports: string[] = []
  const heard: string[] = []
  const swap_costs: KvSwapCosts[] = []
  const contexts: ContextCounts[] = []
  const front = await VllmFront.start(
    {
      id: 'agent-e0',
      model_id: 'model',
      ordering: 'modelled',
      server: vllm,
      report: (message, error) => reports.push(error === null ? message : `${message}: ${String(error)}`),
      random: () => 0,
      ...options,
      // On a busy machine a test's record may come late, and only where a test says so that is the point.
      times: { record_wait_ms: 30_000, ...options.times },
    },
    {
      ledger: (more) => rows.push(...more),
      status: () => heard.push('status'),
      epoch: () => heard.push('epoch'),
      counted: (what) => counted.push(what),
      swapCosts: (costs) => swap_costs.push(costs),
      contexts: (counts) => contexts.push(counts),
    },
  )
  onTestFinished(async () => {
    vllm.down('the test is over')
    await front.stop()
  })
  const serve: FrontUnderTest['serve'] = (body = {}, claims = {}) => {
    const sink = new RecordingSink()
    const call = dispatched(front.describe().epoch, { messages: user('Hi'), ...body }, claims)
    front.serve(call, sink)
    return { sink, lease: call.claims.lease }
  }
  const ledger = (lease: string): LedgerSums => {
    const of_lease = rows.filter((row) => row.lease === lease)
    const sum = (of: (row: LedgerRow) => number) => of_lease.reduce((total, row) => total + of(row), 0)
    return {
      wall_us: sum((row) => row.wall_us),
      modelled_us: sum((row) => row.modelled_us),
      computed_tokens: sum((row) => row.computed_tokens),
      sampled_tokens: sum((row) => row.sampled_tokens),
    }
  }
  return { front, vllm, rows, counted, reports, heard, swap_costs, contexts, serve, ledger }
}

export async function scriptedVllm(addressed: ScriptedVllm['addressed'] = {}): Promise<ScriptedVllm> {
  const vllm = await new ScriptedVllm().listen()
  vllm.addressed = addressed
  return vllm
}

export async function arrived(vllm: ScriptedVllm, nth = 0): Promise<ScriptedRequest> {
  await until(() => vllm.requests.length > nth)
  return vllm.requests[nth] ?? expect.fail('no request')
}

/** Ledger and record say the same. */
export function conserved({ ledger }: FrontUnderTest, lease: string, measured: unknown): void {
  const { wall_us, modelled_us } = ledger(lease)
  expect(measured).toMatchObject({ service_wall_us: wall_us, service_modelled_us: modelled_us })
}
