/** Output lengths of the SamuLLM authors' models on No Robots, as quantile tables; the file has their provenance. */
import { type LengthTable, lengthAt, lengthTable, lengthTableOf } from './length-table.ts'
import FILE from './output-lengths.json' with { type: 'json' }

/** By the model's name, without its owner. */
export const OUTPUT_LENGTHS: Readonly<Record<string, LengthTable>> = Object.fromEntries(
  Object.entries(FILE.models).map(([model, { quantiles, mean_tokens, max_model_tokens }]) => [
    model,
    lengthTable(quantiles, mean_tokens, max_model_tokens),
  ]),
)

/** No lengths of it were published. It gets those of the other models of its ensemble together, which is a guess. */
const UNMEASURED = 'stablelm-tuned-alpha-7b'
const UNMEASURED_MODEL_TOKENS = 4096
const ALIKE = [
  'vicuna-13b-v1.5',
  'oasst-sft-4-pythia-12b-epoch-3.5',
  'alpaca-13b',
  'baize-v2-13b',
  'koala-13B-HF',
  'dolly-v2-12b',
  'mpt-7b-chat',
  'chatglm3-6b',
]
const POINTS = 200

/** Of a model of which nothing is known. */
export const GUESSED_LENGTHS: LengthTable = lengthTableOf(
  ALIKE.flatMap((model) =>
    Array.from({ length: POINTS }, (_, at) => lengthAt(OUTPUT_LENGTHS[model] as LengthTable, (at + 0.5) / POINTS)),
  ),
  UNMEASURED_MODEL_TOKENS,
)

export function lengthsOf(model: string): LengthTable | undefined {
  return model === UNMEASURED ? GUESSED_LENGTHS : OUTPUT_LENGTHS[model]
}
