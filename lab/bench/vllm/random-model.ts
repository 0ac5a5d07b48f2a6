/**
 * A model of Llama-3-8B's shape in bfloat16 without weights, for vLLM's `--load-format dummy`: nothing is downloaded. Its tokenizer knows
 * words alone, each one token with the space before it. So prompts have as many tokens as words, and an answer, though it means nothing, has
 * the same tokens again in the next call's prompt.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { WORDS } from './play-programs.ts'

const ID = 'random-8b'
const VOCABULARY = 32_000
/** How a tokenizer of this kind writes a space. */
const SPACE = '▁'
const UNKNOWN = '<unk>'

const CONFIG = {
  ...{ architectures: ['LlamaForCausalLM'], model_type: 'llama', torch_dtype: 'bfloat16', vocab_size: VOCABULARY },
  ...{ hidden_size: 4096, intermediate_size: 14_336, num_hidden_layers: 32 },
  ...{ num_attention_heads: 32, num_key_value_heads: 8, head_dim: 128, max_position_embeddings: 16_384 },
  ...{ rms_norm_eps: 1e-5, rope_theta: 500_000, hidden_act: 'silu', initializer_range: 0.02 },
  ...{ tie_word_embeddings: false, bos_token_id: 0, eos_token_id: 0 },
}

export interface RandomModel {
  id: string
  path: string
}

/** `shape`: what of the configuration is another. */
export function randomModel(folder: string, shape: Readonly<Record<string, number>> = {}): RandomModel {
  const made = path.join(folder, ID)
  mkdirSync(made, { recursive: true })
  const write = (name: string, value: object) => writeFileSync(path.join(made, name), JSON.stringify(value))
  write('config.json', { ...CONFIG, ...shape })
  write('tokenizer.json', tokenizer())
  write('tokenizer_config.json', { tokenizer_class: 'PreTrainedTokenizerFast', unk_token: UNKNOWN })
  return { id: ID, path: made }
}

function tokenizer(): object {
  const further = Array.from({ length: VOCABULARY - 1 - WORDS.length }, (_, index) => `w${index}`)
  const words = [UNKNOWN, ...[...WORDS, ...further].map((word) => `${SPACE}${word}`)]
  const spaces = { type: 'Metaspace', replacement: SPACE, prepend_scheme: 'never', split: true }
  return {
    ...{ version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null, post_processor: null },
    pre_tokenizer: spaces,
    decoder: spaces,
    model: { type: 'WordLevel', vocab: Object.fromEntries(words.map((word, id) => [word, id])), unk_token: UNKNOWN },
  }
}
