/**
 * Writes the distributions of lengths that SamuLLM's applications are drawn from, as quantiles 0 to 100, from traces in the line format of docs/traces.md:
 *
 *   node simulator/planner/paper/derive-inputs.ts FOLDER
 *
 * FOLDER has samullm_mixinstruct.jsonl, samullm_routerbench.jsonl, samullm_chain_summary.jsonl and sharegpt.jsonl. No text is read or kept.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { z } from 'zod'
import { lengthTableOf } from '../../../gpu-agent/planner/lengths/length-table.ts'

const PROVENANCE =
  'Quantiles 0 % to 100 % of token counts, written by simulator/planner/paper/derive-inputs.ts. mixinstruct_input: prompts of No Robots (puddingfjz/vllm @ de1677dc, ' +
  'benchmarks/no_robot_test.parquet; CC-BY-NC-4.0, only lengths), a stand-in for MixInstruct. routing_input: prompts of GSM8K and MT-Bench (lm-sys/RouteLLM @ 0b64fdaf, ' +
  "Apache-2.0). mixtral_gsm8k_output: Mixtral-8x7B-Instruct's real answers there. chunks: of the 100 books of BooookScore (lilakk/BooookScore @ 094bf69b, MIT) at 2,048 " +
  'tokens. sharegpt_input, sharegpt_output: the first calls of conversations of ShareGPT (Marugannwg/ShareGPT92k_user_linguistic_mining @ 8186064b, MIT) with 4 to 1,024 ' +
  'tokens of prompt and 2,048 in all, as vLLM benchmarks filter them.'

const Line = z.object({
  id: z.string(),
  calls: z
    .array(
      z.object({
        prompt_tokens: z.int().min(1),
        output_tokens: z.int().min(1),
        kind: z.string().optional(),
        model: z.string().optional(),
        source: z.string().optional(),
      }),
    )
    .min(1),
})
type Line = z.infer<typeof Line>

const OUT = new URL('inputs.json', import.meta.url)

const [folder] = process.argv.slice(2)
if (folder === undefined) {
  console.error('usage: node simulator/planner/paper/derive-inputs.ts FOLDER')
  process.exit(2)
}

const lines = (name: string): Line[] =>
  readFileSync(path.join(folder, name), 'utf8')
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => Line.parse(JSON.parse(line)))
const first = ({ calls: [call] }: Line) => call as Line['calls'][number]

const mixinstruct = lines('samullm_mixinstruct.jsonl').map(first)
const routing = lines('samullm_routerbench.jsonl').map(first)
const books = lines('samullm_chain_summary.jsonl').filter(({ id }) => id.includes('booookscore'))
const sharegpt = lines('sharegpt.jsonl')
  .map(first)
  .filter(
    ({ prompt_tokens: input, output_tokens: output }) =>
      input >= 4 && output >= 4 && input <= 1024 && input + output <= 2048,
  )

const measured: Record<string, number[]> = {
  mixinstruct_input: mixinstruct.map((call) => call.prompt_tokens),
  routing_input: routing.map((call) => call.prompt_tokens),
  mixtral_gsm8k_output: routing
    .filter(({ model, source }) => model === 'Mixtral-8x7B-Instruct-v0.1' && source === 'gsm8k')
    .map((call) => call.output_tokens),
  chunks: books.map(({ calls }) => calls.filter(({ kind }) => kind === 'summarize').length),
  sharegpt_input: sharegpt.map((call) => call.prompt_tokens),
  sharegpt_output: sharegpt.map((call) => call.output_tokens),
}
const tables = Object.entries(measured).map(([name, counts]) => {
  const { quantiles } = lengthTableOf(counts, Number.MAX_SAFE_INTEGER)
  const mean = counts.reduce((sum, count) => sum + count, 0) / counts.length
  return [
    name,
    { samples: counts.length, mean: Number(mean.toFixed(2)), quantiles: quantiles.map(Math.round) },
  ] as const
})
writeFileSync(OUT, `${JSON.stringify({ provenance: PROVENANCE, tables: Object.fromEntries(tables) })}\n`)
for (const [name, { samples, mean }] of tables) console.log(`${name}: ${samples} samples, mean ${mean}`)
