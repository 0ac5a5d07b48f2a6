/** The flags of `npm run bench:vllm`. */
import { fail, readFlags } from '../../../cli/flags.ts'
import type { VllmDevice } from '../../../ops/vllm/host.ts'
import { GPU_WORKLOADS, LABELS, type Labels, WORKLOADS, type WorkloadSetting, workloadsNamed } from '../workload.ts'
import { handlesContexts, nameOf, SCHEDULERS, type SchedulerName } from './schedulers.ts'
import { GPU_SETTINGS, settingsOf, VLLM_SETTINGS } from './settings.ts'

const NAMES = SCHEDULERS.map(nameOf)
const DEFAULT_NAMES = SCHEDULERS.filter((one) => !handlesContexts(one)).map(nameOf)
const HANDLING_NAMES = SCHEDULERS.filter(handlesContexts).map(nameOf)
const QUICK_NAMES = ['stock-fcfs', 'plas', 'atlas']
/** A vLLM without our plug-in and one with it: the memory of a GPU holds two of a large model. */
const GPU_NAMES = ['stock-fcfs', 'plas', 'learned', 'fcfs-program', 'atlas']
/** Of a workload's programs, of the runs and of the one that measures capacity. */
const QUICK_SHARE = 0.4
const QUICK_CAPACITY_SHARE = 0.6
const MINUTES = 90
const QUICK_MINUTES = 15

export const HELP = `Program token latency of a real vLLM, on this host's GPU or else on the CPU, through the whole control plane, in overload: stock vLLM in order of arrival, stock
vLLM with priorities that a gateway sets, stock vLLM behind the agent's own queue (queue-NAME), and vLLM with our scheduler, whose policy is changed while it runs, and which swaps the KV
of preempted calls in NAME-swap. Nothing else may use the machine meanwhile. On the CPU it takes ${MINUTES} minutes and 19 GB of
memory (14 without plas-swap), and 6 GB of disk once. On a GPU of 80 GB or more it takes a quarter of an hour: a model of Llama-3-8B's shape with random weights,
${GPU_SETTINGS.mixed.kv_tokens} tokens of KV. SWITCHYARD_VLLM_DEVICE=cpu leaves a GPU alone.

  npm run bench:vllm -- [flags]

  --json FILE         all figures, written after every run
  --schedulers LIST   of ${DEFAULT_NAMES.join(', ')} (default these;
                      on a GPU ${GPU_NAMES.join(', ')}),
                      and those that handle KV while tools run: ${HANDLING_NAMES.join(', ')}
  --workload all      ${WORKLOADS.join(', ')}, on a GPU ${GPU_WORKLOADS.join(', ')}, with commas between them, or all:
                      chats: short and long chats and small trees, whose KV all fits
                      react: chains of tool calls with long contexts, of which KV holds a third
                      trees: waves of calls that share a long context, of which KV holds a third
                      writers: long texts about long documents, and questions that preempt them; KV holds 3 to 4 writers
                      mixed: chats, agents and long texts, as gpu-check plays them; KV holds 19 contexts
                      tools: agents whose tools take up to 10 s; KV holds 12 contexts
  --labels workload   what clients name their programs' application, by which learned tells them apart: the workload, or kind
  --seeds 3           draws of each workload; each scheduler plays each; fewer if more do not fit the time (on a GPU 1)
  --first-seed 1
  --programs N        a run (default: ${defaults('programs')})
  --load X            arrival rate as a multiple of what the machine serves, measured first
                      (default: ${defaults('load')})
  --minutes ${MINUTES}        for all
  --quick             ${QUICK_MINUTES} minutes: one seed, ${QUICK_SHARE * 100} % of the programs, ${QUICK_NAMES.join(', ')}
  --model PATH        a GGUF, a folder with safetensors, or a name on the hub (default: the shipped small model, on a GPU random weights)
  --plot FILE.svg     a plot
  --help`

export interface VllmBenchPlan {
  schedulers: SchedulerName[]
  seeds: number
  first_seed: number
  settings: WorkloadSetting[]
  labels: Labels
  time_s: number
  model: string | null
  json: string | null
  plot: string | null
}

const TEXT = { type: 'string' } as const

/** Prints the help or what is wrong, and exits. */
export function benchFlags(argv: readonly string[], device: VllmDevice): VllmBenchPlan {
  const parsed = parseBenchFlags(argv, device)
  if (parsed === 'help') {
    console.log(HELP)
    process.exit(0)
  }
  return typeof parsed === 'string' ? fail(parsed) : parsed
}

/** A sentence says what is wrong. */
export function parseBenchFlags(argv: readonly string[], device: VllmDevice = 'cpu'): VllmBenchPlan | string {
  const flags = readFlags('bench:vllm', argv, {
    ...{ json: TEXT, schedulers: TEXT, seeds: TEXT, programs: TEXT, minutes: TEXT, model: TEXT, plot: TEXT },
    ...{
      labels: { ...TEXT, default: 'workload' },
      load: TEXT,
      workload: { ...TEXT, default: 'all' },
      'first-seed': { ...TEXT, default: '1' },
    },
    quick: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  })
  if (!flags.ok) return flags.reason
  const { values } = flags
  if (values.help) return 'help'
  const { quick } = values
  const gpu = device === 'gpu'
  const default_names = gpu ? GPU_NAMES : DEFAULT_NAMES
  const names = values.schedulers?.split(',').map((name) => name.trim()) ?? (quick ? QUICK_NAMES : default_names)
  const schedulers = names.map((name) => SCHEDULERS.find((one) => nameOf(one) === name))
  const unknown = names.find((_, index) => schedulers[index] === undefined)
  if (unknown !== undefined) return `--schedulers: there is no ${unknown}; there are ${NAMES.join(', ')}`
  const seeds = whole('--seeds', values.seeds ?? (quick || gpu ? '1' : '3'))
  const first_seed = whole('--first-seed', values['first-seed'])
  const programs = values.programs === undefined ? null : whole('--programs', values.programs)
  const minutes = whole('--minutes', values.minutes ?? `${quick ? QUICK_MINUTES : MINUTES}`)
  for (const value of [seeds, first_seed, programs, minutes]) if (typeof value === 'string') return value
  const load = values.load === undefined ? null : Number(values.load)
  if (load !== null && !(load > 0 && load <= LOAD_MAX))
    return `--load must be a number above 0 and at most ${LOAD_MAX}, not ${values.load}`
  const labels = LABELS.find((name) => name === values.labels)
  if (labels === undefined) return `--labels is ${LABELS.join(' or ')}, not ${values.labels}`
  const playable = settingsOf(device)
  const known = playable.map(({ workload }) => workload)
  const workloads = workloadsNamed(values.workload, known)
  if (workloads === null) return `--workload is all or of ${known.join(', ')}, not ${values.workload}`
  const chosen = playable.filter(({ workload }) => workloads.includes(workload))
  const settings = chosen.map((whole_size): WorkloadSetting => {
    const setting = quick ? quickly(whole_size) : whole_size
    return { ...setting, programs: (programs as number | null) ?? setting.programs, load: load ?? setting.load }
  })
  return {
    schedulers: schedulers as SchedulerName[],
    labels,
    ...{ seeds: seeds as number, first_seed: first_seed as number, settings, time_s: (minutes as number) * 60 },
    ...{ model: values.model ?? null, json: values.json ?? null, plot: values.plot ?? null },
  }
}

function quickly(setting: WorkloadSetting): WorkloadSetting {
  const programs = Math.round(setting.programs * QUICK_SHARE)
  return { ...setting, programs, capacity_programs: Math.round(setting.capacity_programs * QUICK_CAPACITY_SHARE) }
}

function defaults(of: 'programs' | 'load'): string {
  return WORKLOADS.map((workload) => `${workload} ${VLLM_SETTINGS[workload][of]}`).join(', ')
}

const LOAD_MAX = 100
const WHOLE_MAX = 100_000

function whole(flag: string, text: string): number | string {
  const value = Number(text)
  return /^\d+$/.test(text) && value >= 1 && value <= WHOLE_MAX
    ? value
    : `${flag} must be a whole number from 1 to ${WHOLE_MAX}, not ${JSON.stringify(text)}`
}
