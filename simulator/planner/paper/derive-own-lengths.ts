/**
 * Writes how long the shipped model's answers on the embedded engine are, and their prompts, as quantiles 0 to 100:
 *
 *   npm run bench:lengths -- --prompts 150 --json FILE
 *   node simulator/planner/paper/derive-own-lengths.ts FILE
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { z } from 'zod'
import { lengthTableOf } from '../../../gpu-agent/planner/lengths/length-table.ts'

const Measured = z.object({
  model: z.string(),
  lengths: z.array(z.object({ prompt_tokens: z.int().min(1), output_tokens: z.int().min(1) })).min(100),
})

const OUT = new URL('own-lengths.json', import.meta.url)

const [file] = process.argv.slice(2)
if (file === undefined) {
  console.error('usage: node simulator/planner/paper/derive-own-lengths.ts FILE')
  process.exit(2)
}
const { model, lengths } = Measured.parse(JSON.parse(readFileSync(file, 'utf8')))
const provenance =
  `Quantiles 0 % to 100 % of token counts, written by simulator/planner/paper/derive-own-lengths.ts: answers of ${model} on the embedded engine to ` +
  `${lengths.length} prompts over this project's documentation (npm run bench:lengths), ${new Date().toISOString().slice(0, 10)}.`
const tables = {
  input: tableOf(lengths.map(({ prompt_tokens }) => prompt_tokens)),
  output: tableOf(lengths.map(({ output_tokens }) => output_tokens)),
}
writeFileSync(OUT, `${JSON.stringify({ provenance, model, tables })}\n`)
for (const [name, { samples, mean }] of Object.entries(tables)) console.log(`${name}: ${samples} samples, mean ${mean}`)

function tableOf(counts: readonly number[]) {
  const { quantiles, mean_tokens } = lengthTableOf(counts, Number.MAX_SAFE_INTEGER)
  return { samples: counts.length, mean: Number(mean_tokens.toFixed(2)), quantiles: quantiles.map(Math.round) }
}
