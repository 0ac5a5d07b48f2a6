/** Measures a fresh context on its first slot, and finds the images of its KV a place that holds the whole of it. */
import type { LlamaContextSequence, Token } from 'node-llama-cpp'
import { type BatchGate, slotPriority } from './batch-gate.ts'
import { KvImages } from './kv-images.ts'
import { type MeasuredCosts, measureCosts } from './measure-costs.ts'
import { truncate } from './sequences.ts'

/** Costs are taken to be linear between so many tokens and a chunk more. */
const FEW_TOKENS = 8
/** Calls of a step as it usually is, where the context has so many slots. */
const DECODING_CALLS = 4
/** Room for the images that are made while measuring. */
const ROOM_BYTES_MIN = 64 << 20
const IMAGE = -1

/** `images` is null when no file system has room for the KV of all slots; then nothing can be swapped. */
export async function measureBackend(
  sequences: readonly LlamaContextSequence[],
  gate: BatchGate,
  chunk_tokens: number,
): Promise<{ images: KvImages | null; costs: MeasuredCosts }> {
  const [first] = sequences
  if (first === undefined) throw new RangeError('a context has a sequence')
  const many_tokens = Math.min(FEW_TOKENS + chunk_tokens, first.contextSize - 2)
  const images = await KvImages.open(ROOM_BYTES_MIN)
  let image_bytes = 0
  const prefill = async (tokens: number): Promise<void> => {
    gate.expect([{ slot: 0, tokens }])
    // Any tokens do: all cost the same.
    const input = Array.from({ length: tokens }, (_, index) => (index + 1) as Token)
    await first.controlledEvaluate(input, { evaluationPriority: slotPriority(0) })
  }
  const decoding = sequences.slice(0, DECODING_CALLS)
  const decode = async (): Promise<void> => {
    const held = decoding.map(({ nextTokenIndex }) => nextTokenIndex)
    gate.expect(decoding.map((_, slot) => ({ slot, tokens: 1 })))
    const inputs = decoding.map((sequence, slot) =>
      sequence.controlledEvaluate([1 as Token], { evaluationPriority: slotPriority(slot) }),
    )
    await Promise.all(inputs)
    for (const [slot, sequence] of decoding.entries()) await truncate(sequence, held[slot] ?? 0)
  }
  const save = async (): Promise<void> => {
    await images?.save(first, IMAGE)
    image_bytes = images?.bytes ?? 0
    await truncate(first, 0)
  }
  const restore = async (): Promise<void> => {
    await images?.restoreAll(first, IMAGE)
    await images?.drop(IMAGE)
  }
  const clock = () => performance.now() * 1000
  const swap = images === null ? null : { save, restore }
  const costs = await measureCosts({ clock, prefill, decode, swap }, FEW_TOKENS, many_tokens)
  await truncate(first, 0)
  if (images === null) return { images, costs }
  await images.dispose()
  const kv_bytes = Math.ceil((image_bytes / many_tokens) * sequences.length * first.contextSize)
  return { images: await KvImages.open(kv_bytes), costs }
}
