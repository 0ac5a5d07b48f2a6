/** The programs that a spec names: those of the run, those that ended before it, and how their clients present them. */
import { seededRandom } from '../../random.ts'
import {
  drawWorkload,
  type ProgramClient,
  type WorkloadCall,
  type WorkloadName,
  type WorkloadProgram,
} from '../../workloads/index.ts'
import type { ClientRule, RunSpec } from './run-spec.ts'
import { TOY_PROGRAMS } from './toy-programs.ts'

/** Beyond every seed of the evaluation. */
const HISTORY_SEED = 2 ** 31
/** Workloads are put among each other by another sequence than that of their programs. */
const AMONG_SEED = 0xa309

export function programsOf(spec: RunSpec): readonly WorkloadProgram[] {
  const { workload, programs, seed, more, clients = [] } = spec
  const first = drawnOf(spec, workload, programs, seed)
  const second = more === undefined ? [] : drawnOf(spec, more.workload, more.programs, seed)
  const all = more?.order === 'among' ? amongEachOther([first, second], seed) : [...first, ...second]
  return clients.length === 0 ? all : presented(all, clients)
}

/** What ended before the run: of workloads that come among each other in the run's proportion, else of each as many. */
export function historyOf(spec: RunSpec): readonly WorkloadProgram[] {
  const { workload, history, more, clients = [] } = spec
  if (history === undefined) return []
  const { history_of = more === undefined ? [workload] : [workload, more.workload] } = spec
  const seed = HISTORY_SEED + spec.seed
  const second = more?.order === 'among' ? Math.round((history * more.programs) / spec.programs) : history
  const drawn = history_of.map((one) => drawnOf(spec, one, one === more?.workload ? second : history, seed))
  const all = drawn.length === 1 ? drawn.flat() : amongEachOther(drawn, seed)
  const before = clients.filter(({ in_run }) => in_run === undefined)
  return before.length === 0 ? all : presented(all, before)
}

function drawnOf(spec: RunSpec, workload: RunSpec['workload'], programs: number, seed: number): WorkloadProgram[] {
  if (workload === 'toy') return [...TOY_PROGRAMS]
  const { app_prefix, one_call, prompt_scale } = spec
  let drawn = drawWorkload(workload, programs, seed)
  if (!app_prefix) drawn = drawn.map(withoutAppPrefix)
  if (prompt_scale !== undefined) drawn = drawn.map((program) => scaled(program, prompt_scale))
  return one_call ? drawn.map(asOneCall) : drawn
}

/** Each call adds so many times the prompt tokens that it adds. */
function scaled(program: WorkloadProgram, factor: number): WorkloadProgram {
  const calls: WorkloadCall[] = []
  for (const call of program.calls) {
    const before = call.prefix_of === null || call.prefix_of === undefined ? null : program.calls[call.prefix_of]
    const longer = before === null || before === undefined ? null : (calls[call.prefix_of as number] ?? null)
    const grown_tokens = longer === null ? 0 : longer.prompt_tokens - (before?.prompt_tokens ?? 0)
    const own_tokens = Math.round((call.prompt_tokens - call.shared_prefix_tokens) * factor)
    const shared_prefix_tokens = call.shared_prefix_tokens + (call.shared_prefix_tokens > 0 ? grown_tokens : 0)
    calls.push({ ...call, shared_prefix_tokens, prompt_tokens: shared_prefix_tokens + own_tokens })
  }
  return { ...program, calls }
}

/** What it reads and writes in one call: its tools' answers are part of the prompt, and nothing is waited for. */
function asOneCall(program: WorkloadProgram): WorkloadProgram {
  const [first] = program.calls
  if (first === undefined) return program
  const output_tokens = program.calls.reduce((sum, call) => sum + call.output_tokens, 0)
  return { ...program, calls: [{ ...first, output_tokens, tool: null, tool_seconds: null }] }
}

function withoutAppPrefix(program: WorkloadProgram): WorkloadProgram {
  const { app_prefix_tokens: _, app_prefix_tokens_by_kind: __, ...own } = program
  return own
}

/** In random order, each workload's own kept. */
function amongEachOther(parts: readonly WorkloadProgram[][], seed: number): WorkloadProgram[] {
  const random = seededRandom(seed ^ AMONG_SEED)
  return parts
    .flatMap((part) => part.map((program, index) => ({ program, at: (index + random()) / part.length })))
    .sort((a, b) => a.at - b.at)
    .map(({ program }) => program)
}

function presented(programs: readonly WorkloadProgram[], rules: readonly ClientRule[]): WorkloadProgram[] {
  const seen = rules.map(() => 0)
  return programs.map((program) => {
    const at = rules.findIndex((rule, index) => {
      if (rule.workload !== undefined && rule.workload !== (program.workload as WorkloadName)) return false
      const position = seen[index] as number
      seen[index] = position + 1
      return rule.share === undefined || position % rule.share.of < rule.share.take
    })
    const rule = rules[at]
    return rule === undefined ? program : { ...program, client: clientOf(program, rule) }
  })
}

function clientOf({ id }: WorkloadProgram, { client: { fresh, ...client } }: ClientRule): ProgramClient {
  return fresh ? { ...client, label: id } : client
}
