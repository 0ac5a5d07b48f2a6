/** What the real model writes to each prompt, and what it says of the prompt's last token: from an engine as it serves. */
import type { DispatchedCall, EngineFront } from '../../../gpu-agent/src/fronts/engine-front.ts'
import type { FrontOptions } from '../../../gpu-agent/src/fronts/front-options.ts'
import { startEmbeddedFront } from '../../../gpu-agent/src/fronts/local/embedded-front.ts'
import { dispatched } from '../../../gpu-agent/src/fronts/testing/dispatched.ts'
import { RecordingSink } from '../../../gpu-agent/src/fronts/testing/recording-sink.ts'
import { BIN_TOKENS, LENGTH_BINS, type LengthSample } from '../../../src/core/tools/length-classifier.ts'
import type { LengthPrompt } from './prompts.ts'

export interface CollectedSample extends LengthSample {
  embedding: Float32Array
  task: string
  prompt_tokens: number
  words: number
  /** Of the call that gave the embedding, its prompt's prefill included. */
  embed_us: number
}

const OUTPUT_TOKENS_MAX = LENGTH_BINS * BIN_TOKENS
/** So many calls are open at once: as many as run. */
const OPEN_MAX = 4

export async function collectSamples(
  model_path: string,
  prompts: readonly LengthPrompt[],
  progress: (done: number) => void,
): Promise<CollectedSample[]> {
  const own = { engine: 'embedded', id: 'lengths-e0', model_id: 'model', model_path, policy: 'fcfs' } as const
  const options: FrontOptions = { ...own, seats: OPEN_MAX, slots: OPEN_MAX + 1, context_tokens: 2_048 }
  const events = { ledger() {}, status() {}, epoch() {} }
  const front = await startEmbeddedFront(options, events, (message, error) => {
    throw new Error(message, { cause: error })
  })
  try {
    const samples: CollectedSample[] = []
    const waiting = [...prompts]
    const worker = async (): Promise<void> => {
      for (let prompt = waiting.pop(); prompt !== undefined; prompt = waiting.pop()) {
        samples.push(await sampleOf(front, prompt))
        progress(samples.length)
      }
    }
    await Promise.all(Array.from({ length: OPEN_MAX }, worker))
    return samples
  } finally {
    await front.stop()
  }
}

async function sampleOf(front: EngineFront, { task, text }: LengthPrompt): Promise<CollectedSample> {
  const { epoch } = front.describe()
  const embeds = { input: text, encoding_format: 'float' }
  const read = await served(front, dispatched(epoch, embeds, { dialect: 'embeddings' }))
  const vectors = read.chunks as unknown as { data?: { embedding: number[] }[] }[]
  const embedding = vectors.flatMap(({ data = [] }) => data.map((one) => one.embedding))[0]
  if (embedding === undefined) throw new Error('the engine gave no embedding')
  const body = { messages: [{ role: 'user', content: text }], max_tokens: OUTPUT_TOKENS_MAX }
  const answer = await served(front, dispatched(epoch, body))
  return {
    task,
    embedding: Float32Array.from(embedding),
    embed_us: read.end?.measurement.duration_us ?? 0,
    prompt_tokens: answer.end?.measurement.prompt_tokens ?? 0,
    tokens: answer.end?.measurement.output_tokens ?? 0,
    words: answer.text.split(/\s+/).filter((word) => word !== '').length,
  }
}

async function served(front: EngineFront, call: DispatchedCall): Promise<RecordingSink> {
  const sink = new RecordingSink()
  front.serve(call, sink)
  const end = await sink.over
  if (end?.outcome !== 'completed') throw new Error('a call failed', { cause: sink.error ?? end?.error })
  return sink
}
