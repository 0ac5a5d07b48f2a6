/**
 * Writes the planner's length tables from the SamuLLM authors' measured output lengths, given as mean and quantiles 0 to 100 by model:
 *
 *   node simulator/planner/derive-output-lengths.ts LENGTHS.json
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { z } from 'zod'
import { lengthTable } from '../../gpu-agent/planner/lengths/length-table.ts'

const PROVENANCE =
  'Output lengths of 10,000 requests of No Robots (CC-BY-NC-4.0; only lengths are used), measured by the SamuLLM authors for each model ' +
  '(puddingfjz/vllm @ de1677dc, benchmarks/collect_output_lengths/no_robot_copy/out_len_sampler_2.py, Apache-2.0), as mean and quantiles 0 % to 100 %. ' +
  'Written by simulator/planner/derive-output-lengths.ts.'

const Lengths = z.record(
  z.string(),
  z.object({
    max_model_len: z.int().min(2),
    mean: z.number().min(1),
    quantiles_0_to_100: z.array(z.int().min(1)).length(101),
  }),
)

const OUT = new URL('../../gpu-agent/planner/lengths/output-lengths.json', import.meta.url)

const [file] = process.argv.slice(2)
if (file === undefined) {
  console.error('usage: node simulator/planner/derive-output-lengths.ts LENGTHS.json')
  process.exit(2)
}
const lines = Object.entries(Lengths.parse(JSON.parse(readFileSync(file, 'utf8')))).map(([model, measured]) => {
  const { quantiles, mean_tokens, max_model_tokens } = lengthTable(
    measured.quantiles_0_to_100,
    measured.mean,
    measured.max_model_len,
  )
  return `${JSON.stringify(model)}:${JSON.stringify({ max_model_tokens, mean_tokens, quantiles })}`
})
writeFileSync(OUT, `{"provenance":${JSON.stringify(PROVENANCE)},"models":{\n${lines.join(',\n')}\n}}\n`)
console.log(`${lines.length} models`)
