/** Iterations that an engine logged, one a line: model,tp,phase,seq_num,max_seqlen,total_tokens,exec_s,sample_s,prep_input_s. */

export interface Iteration {
  model: string
  tp: number
  phase: 'prefill' | 'decode'
  /** B, s and S. */
  calls: number
  longest: number
  tokens: number
  compute_us: number
  sample_us: number
  prepare_us: number
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
const US_PER_S = 1e6

export class IterationLogError extends Error {}

export function readIterations(text: string): Iteration[] {
  const [header = '', ...lines] = text.trimEnd().split('\n')
  if (header.trim() !== COLUMNS.join(','))
    throw new IterationLogError(`the first line must be ${COLUMNS.join(',')}, and it is ${header.slice(0, 200)}`)
  return lines.map((line, at) => iterationOf(line, at + 2))
}

function iterationOf(line: string, number: number): Iteration {
  const [model = '', tp, phase, ...rest] = line.trim().split(',')
  const numbers = [tp, ...rest].map(Number)
  if (numbers.length !== COLUMNS.length - 2 || numbers.some((one) => !(one >= 0)) || model === '')
    throw new IterationLogError(`line ${number} does not have ${COLUMNS.length} values that are not negative`)
  if (phase !== 'prefill' && phase !== 'decode')
    throw new IterationLogError(`line ${number}: the phase is prefill or decode, not ${phase}`)
  const [gpus, calls, longest, tokens, compute, sample, prepare] = numbers as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ]
  return {
    ...{ model, tp: gpus, phase, calls, longest, tokens },
    compute_us: compute * US_PER_S,
    sample_us: sample * US_PER_S,
    prepare_us: prepare * US_PER_S,
  }
}
