/**
 * The authors' log of iteration latencies behind SamuLLM (A100-80GB, vLLM): one row an iteration. A prefill iteration computes
 * `seq_num` prompts padded to `max_seqlen`; a decode iteration one token of each of `seq_num` sequences of `total_tokens` tokens in all.
 */
import { readFileSync } from 'node:fs'
import { z } from 'zod'

export type Phase = 'prefill' | 'decode'

export interface Iteration {
  model: string
  tp: number
  phase: Phase
  sequences: number
  longest_tokens: number
  total_tokens: number
  /** Execution, sampling and input preparation together. */
  duration_us: number
}

const COLUMNS = [
  'model',
  'tp',
  'phase',
  'seq_num',
  'max_seqlen',
  'total_tokens',
  'exec_s',
  'sample_s',
  'prep_input_s',
] as const
const ROWS_MAX = 1_000_000

const rowSchema = z.tuple([
  z.string().min(1),
  z.coerce.number().int().positive(),
  z.enum(['prefill', 'decode']),
  z.coerce.number().int().positive(),
  z.coerce.number().int().positive(),
  z.coerce.number().int().positive(),
  z.coerce.number().positive(),
  z.coerce.number().nonnegative(),
  z.coerce.number().nonnegative(),
])

/** Throws an Error that names file, line and column. */
export function readIterationLog(path: string): Iteration[] {
  const [header, ...rows] = readFileSync(path, 'utf8').trimEnd().split('\n')
  if (header?.trim() !== COLUMNS.join(',')) throw new Error(`${path}:1: the columns must be ${COLUMNS.join(',')}`)
  if (rows.length > ROWS_MAX) throw new Error(`${path}: has more than ${ROWS_MAX} rows`)
  return rows.map((row, index) => {
    const parsed = rowSchema.safeParse(row.trim().split(','))
    if (!parsed.success) {
      const issue = parsed.error.issues[0]
      throw new Error(`${path}:${index + 2}: ${COLUMNS[Number(issue?.path[0])] ?? '(row)'}: ${issue?.message}`)
    }
    const [model, tp, phase, sequences, longest_tokens, total_tokens, exec_s, sample_s, prep_s] = parsed.data
    const duration_us = (exec_s + sample_s + prep_s) * 1e6
    return { model, tp, phase, sequences, longest_tokens, total_tokens, duration_us }
  })
}
