/** What a token's KV takes, by the model's own configuration: the swap's rings are sized in bytes, and charged against KV in blocks. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { z } from 'zod'

const BYTES_PER_VALUE = 2
const Size = z.number().int().positive()

const Config = z.object({
  num_hidden_layers: Size,
  num_attention_heads: Size,
  num_key_value_heads: Size.optional(),
  hidden_size: Size,
  head_dim: Size.nullish(),
})

/** Of a dense model in a folder, served in bfloat16. Throws a sentence if that cannot be told. */
export function kvBytesOfToken(model: string): number {
  let config: z.infer<typeof Config>
  try {
    config = Config.parse(JSON.parse(readFileSync(path.join(model, 'config.json'), 'utf8')))
  } catch {
    throw new Error(`plas-swap needs a folder with the model's config.json, and its layers and heads in it: ${model}`)
  }
  const heads = config.num_key_value_heads ?? config.num_attention_heads
  const head = config.head_dim ?? config.hidden_size / config.num_attention_heads
  return 2 * config.num_hidden_layers * heads * head * BYTES_PER_VALUE
}
