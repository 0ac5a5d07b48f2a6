/**
 * Writes the released InferCept programs in a compact form, from traces in the line format of docs/traces.md:
 *
 *   node simulator/workloads/infercept/derive.ts MULTI.jsonl SINGLE.jsonl     both hold `augmentation` with each program
 *
 * Kept are token counts, durations of tools and lengths of what they return. No text.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { z } from 'zod'
import type { ReleasedFile, ReleasedProgram } from './released.ts'
import { RELEASED } from './released.ts'

const lineSchema = z.object({
  augmentation: z.string(),
  calls: z
    .array(
      z.object({
        prompt_tokens: z.int().min(1),
        shared_prefix_tokens: z.int().min(0),
        output_tokens: z.int().min(1),
        tool: z.string().nullable(),
        tool_seconds: z.number().min(0).nullable(),
        // The released file has -1 where nothing was returned.
        api_return_tokens: z.int().transform((tokens) => Math.max(0, tokens)),
      }),
    )
    .min(1),
})

const PROVENANCE =
  "InferCept's 397 requests with real durations and return lengths of their tools, one call for each segment (mars-repository/mars-codebase @ 4cedd107, " +
  'merged_exp_uniform.json and diverse_oneapi_merged_exp_uniform.json, Apache-2.0; reduced to token counts and times). Texts of chatbot, image and TTS are ' +
  'cut short in the released file, so their contexts are shorter than in the paper.'

function programOf(line: string): ReleasedProgram {
  const { augmentation, calls } = lineSchema.parse(JSON.parse(line))
  const rows = calls.map((call) => {
    const tool_us = call.tool === null ? -1 : Math.round((call.tool_seconds ?? 0) * 1e6)
    return [call.prompt_tokens, call.shared_prefix_tokens, call.output_tokens, tool_us, call.api_return_tokens] as const
  })
  return [augmentation, rows]
}

const [multi, single] = process.argv.slice(2)
if (multi === undefined || single === undefined) {
  console.error('usage: node simulator/workloads/infercept/derive.ts MULTI.jsonl SINGLE.jsonl')
  process.exit(2)
}
for (const [name, file] of Object.entries({ multi, single })) {
  const lines = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.trim() !== '')
  const released: ReleasedFile = { provenance: PROVENANCE, programs: lines.map(programOf) }
  const text = released.programs.map((program) => JSON.stringify(program)).join(',\n')
  writeFileSync(
    RELEASED[name as 'multi' | 'single'],
    `{"provenance":${JSON.stringify(PROVENANCE)},"programs":[\n${text}\n]}\n`,
  )
  console.log(`${name}: ${lines.length} programs`)
}
