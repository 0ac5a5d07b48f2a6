/**
 * The planner's costs of the benchmark's models on each number of GPUs, measured by `npm run calibrate`. Shares of one machine slow each other down, so the
 * other shares run the same meanwhile.
 */
import path from 'node:path'
import { flagList } from '../../testbed/repository.ts'
import { runCommandOrThrow } from '../../testbed/run-command.ts'
import { VllmServer } from '../../testbed/vllm-server.ts'
import type { LentModel, VllmModelOptions } from './lent-host.ts'

/** Of a vLLM that has a GiB for KV: a token of the small model takes 23 or 46 kB. */
const VLLM_KV_TOKENS = 20_000

interface Shares {
  gpus: number
  seats: number
  threads_per_gpu: number
  /** For logs of vLLM. */
  folder: string
}

export async function measureCosts(file: string, models: readonly LentModel[], shares: Shares): Promise<void> {
  for (const model of models) {
    if (model.vllm === null) await measureEmbedded(file, model, shares)
    else await measureVllm(file, model, model.vllm, shares)
  }
}

async function measureEmbedded(
  file: string,
  { model, path: gguf, context_tokens }: LentModel,
  { gpus, seats, threads_per_gpu, folder }: Shares,
): Promise<void> {
  for (let degree = 1; degree <= gpus; degree *= 2) {
    process.stderr.write(`calibrate ${model} on ${degree}\n`)
    const files = [file, ...besideOf(folder, Math.floor(gpus / degree) - 1)]
    await Promise.all(
      files.map((costs) =>
        calibrate({
          ...{ costs, name: model, model: gguf, gpus: degree, threads: degree * threads_per_gpu },
          ...{ seats, slots: seats, 'context-tokens': context_tokens },
        }),
      ),
    )
  }
}

/** On one share only: several vLLMs that share a model between cores of one host are slower than one. */
async function measureVllm(
  file: string,
  { model, path: folder_of_model, context_tokens }: LentModel,
  { python, dtype }: VllmModelOptions,
  { gpus, seats, threads_per_gpu, folder }: Shares,
): Promise<void> {
  process.stderr.write(`calibrate ${model} on vLLM\n`)
  const files = [file, ...besideOf(folder, gpus - 1)]
  await Promise.all(
    files.map(async (costs) => {
      const server = await VllmServer.create('stock-fcfs', {
        ...{ python, model: folder_of_model, served_model: model, folder },
        args: ['--dtype', dtype, '--max-num-seqs', String(seats), '--max-model-len', String(context_tokens)],
        // As an agent starts one of several on a CPU.
        env: { VLLM_CPU_OMP_THREADS_BIND: 'nobind', OMP_NUM_THREADS: String(threads_per_gpu) },
      })
      const started_ms = performance.now()
      await server.start()
      const loading_s = Math.round((performance.now() - started_ms) / 100) / 10
      try {
        await calibrate({
          ...{ costs, name: model, url: `${server.url}/v1`, model, gpus: 1, 'loading-s': loading_s },
          ...{ seats, 'context-tokens': context_tokens, 'kv-tokens': VLLM_KV_TOKENS, rounds: 1 },
        })
      } finally {
        await server.stop()
      }
    }),
  )
}

/** Tables of engines that only keep the other shares busy. */
function besideOf(folder: string, others: number): string[] {
  return Array.from({ length: others }, (_, at) => path.join(folder, `beside-${at}.json`))
}

async function calibrate(flags: Readonly<Record<string, string | number>>): Promise<void> {
  const { stdout } = await runCommandOrThrow('lab/calibrate/main.ts', flagList(flags))
  process.stderr.write(stdout)
}
