/**
 * What ended a vLLM, in one sentence that says what to do, from how its process ended and what its log says. A pure table: the
 * first row whose pattern is in the log names the failure. A cause comes before what vLLM wraps it in (`Engine core
 * initialization failed. See root cause above`), so rows look for causes. The lines are those of vLLM 0.32.0; the tests hold
 * excerpts of its logs.
 */
export interface VllmEnd {
  /** `loading`: it has not been ready yet. */
  phase: 'loading' | 'serving'
  /** null: unknown, since another process started it, or it has not ended. */
  exit: { code: number | null; signal: string | null } | null
  /** It was not ready within so many seconds, and ended for that. */
  start_limit_s: number | null
  /** FlashInfer's kernels were being compiled at that moment. */
  compiling?: boolean
  device: 'cpu' | 'cuda'
  model: string
  log_file: string
  /** The end of what this start has written. */
  log: string
}

export type VllmFailureKind =
  | 'plugin'
  | 'flag'
  | 'port'
  | 'model'
  | 'context'
  | 'gpu'
  | 'gpu_memory'
  | 'kernels'
  | 'kv_memory'
  | 'kv_small'
  | 'host_memory'
  | 'block_size'
  | 'start_limit'
  | 'hang'
  | 'killed'
  | 'died'

export interface VllmFailure {
  kind: VllmFailureKind
  sentence: string
}

interface Row {
  kind: VllmFailureKind
  /** Its group `said` is quoted. */
  pattern: RegExp
  sentence: (said: string, end: VllmEnd) => string
  /** It may end a vLLM that served; the others are causes of a start that fails. */
  serving?: boolean
}

const SAID_CHARACTERS_MAX = 500
const TAIL_LINES = 12
const TAIL_CHARACTERS_MAX = 1500
/** `(EngineCore pid=1) ERROR 11-21 17:00:00 [core.py:1] ` */
const PREFIX = /^(?:\([^)\n]* pid=\d+\) ?)?(?:(?:ERROR|INFO|WARNING|DEBUG) [\d-]+ [\d:]+ \[[^\]\n]*\] ?)?/gm

/** The line of an exception that is no wrapper around another. */
const CAUSE =
  /^(?!\S*EngineDeadError|BrokenPipeError|RuntimeError: (?:Engine core initialization|Worker) failed|Exception: WorkerProc init)[\w.]*(?:Error|Exception)\b: .+$/gm
/** A process of vLLM was ended by signal 9. */
const KILLED = /Failed core proc\(s\): \{[^}]*: -9\b|died unexpectedly \(exit code: -9\)/
/** The engine's process went; without an exception before, it was ended from outside. */
const GONE = /engine core exited unexpectedly|Parent process exited, terminating worker queues/

const TABLE: readonly Row[] = [
  {
    kind: 'plugin',
    pattern: /InterfaceMismatchError: (?<said>.*)/,
    sentence: (said) => `${said} Install such a vLLM in that Python.`,
  },
  {
    kind: 'plugin',
    pattern: /OptionsError: (?<said>.*)/,
    sentence: (said) => `Switchyard's scheduler refused its options: ${said}`,
  },
  {
    kind: 'flag',
    pattern: /^\S+: error: (?<said>.*)/m,
    sentence: (said) => `vLLM refused a flag: ${said}. Correct --vllm-args.`,
  },
  {
    kind: 'port',
    pattern: /OSError: (?<said>\[Errno 98\].*)/,
    sentence: () => 'another process took the port that vLLM was to listen on: the next start takes another.',
  },
  {
    kind: 'model',
    pattern:
      /(?<said>(?:LocalEntryNotFound|RepositoryNotFound|RevisionNotFound|GatedRepo|HFValidation|OfflineModeIsEnabled)Error: .*)/,
    sentence: (said, { model }) =>
      `the model ${model} was not found (${said}). --model is a folder on this host or a name on the Hugging Face hub; a private one needs the variable HF_TOKEN.`,
  },
  {
    kind: 'model',
    pattern: /(?<said>Cannot find any(?: safetensors)? model weights with.*)/,
    sentence: (said) => `${said}: the folder of --model has no *.safetensors, or not all of it was copied.`,
  },
  {
    kind: 'model',
    pattern: /(?<said>Model architectures? \[.*?\] .*)/,
    sentence: (said) => `vLLM cannot serve this model: ${said}`,
  },
  {
    kind: 'context',
    pattern: /User-specified (?<said>max_model_len \(\d+\) is greater than the derived max_model_len \([^)]*\))/,
    sentence: (said) => `--context-tokens is more than the model was made for: ${said}. Give less.`,
  },
  {
    kind: 'gpu_memory',
    serving: true,
    pattern: /(?<said>CUDA out of memory.*|CUDA error: out of memory.*)/,
    sentence: (said) =>
      `the GPU's memory is too small: ${said}. Take a smaller model, more --gpus for each engine, fewer --seats or --context-tokens, or --vllm-args "--gpu-memory-utilization 0.8".`,
  },
  {
    kind: 'gpu_memory',
    pattern: /(?<said>Free memory on device.*)/,
    sentence: (said) =>
      `another process holds memory of the GPU: ${said} End it (nvidia-smi names it), or name other --gpus.`,
  },
  {
    kind: 'gpu',
    pattern: /(?<said>World size \(\d+\) is larger than the number of available GPUs \(\d+\))/,
    sentence: (said) => `${said}: name more --gpus, or fewer in --vllm-args.`,
  },
  {
    kind: 'gpu',
    pattern:
      /(?<said>No CUDA GPUs are available|CUDA driver initialization failed.*|CUDA driver version is insufficient.*)/,
    sentence: (said) => `vLLM cannot use a GPU: ${said}. Look at nvidia-smi and the driver's version.`,
  },
  {
    kind: 'kernels',
    serving: true,
    pattern: /(?<said>Could not find nvcc.*|.*nvcc: (?:not found|No such file).*|RuntimeError: Ninja build failed.*)/,
    sentence: (said) =>
      `FlashInfer could not compile its kernels: ${said}. Install them compiled (python -m vllm.entrypoints.cli.main download-kernels), name a CUDA toolkit by the variable CUDA_HOME, or set VLLM_USE_FLASHINFER_SAMPLER=0.`,
  },
  {
    kind: 'kv_memory',
    pattern: /(?<said>No available memory for the cache blocks)/,
    sentence: (said, { device }) =>
      device === 'cuda'
        ? `after the model there is no memory left for a KV cache (${said}): take a smaller model, more --gpus for each engine, or --vllm-args "--gpu-memory-utilization 0.95".`
        : `there is no memory left for a KV cache (${said}): raise the variable VLLM_CPU_KVCACHE_SPACE (GiB).`,
  },
  {
    kind: 'host_memory',
    pattern: /(?<said>Available memory on node .*? is less than requested memory for kv \([-\d./]+ GiB\))/,
    sentence: (said) =>
      `the host's memory is too small for the KV cache: ${said}. Set the variable VLLM_CPU_KVCACHE_SPACE (GiB) to less, or end what holds the memory.`,
  },
  {
    kind: 'host_memory',
    serving: true,
    pattern: /(?<said>(?:DefaultCPUAllocator: can't allocate memory|Cannot allocate memory|MemoryError\b).*)/,
    sentence: (said) =>
      `the host's memory is too small: ${said}. Take a smaller model, or a smaller KV cache by the variable VLLM_CPU_KVCACHE_SPACE (GiB).`,
  },
  {
    kind: 'kv_small',
    pattern: /(?<said>To serve at least one request with the model's max seq len.*?GiB\)\.(?: Based on.*?is \d+\.)?)/,
    sentence: (said, { device }) => {
      const more = device === 'cuda' ? 'more --gpus for each engine' : 'more VLLM_CPU_KVCACHE_SPACE (GiB)'
      return `the KV cache is too small for one call of full length: ${said} Give a lower --context-tokens, or ${more}.`
    },
  },
  {
    kind: 'block_size',
    pattern: /(?<said>No common block size.*)/,
    sentence: (said) => `vLLM cannot page its KV cache so: ${said} Leave --block-size out of --vllm-args.`,
  },
]

export function classify(end: VllmEnd): VllmFailure {
  const { phase, start_limit_s, log_file } = end
  const whole = end.log.replaceAll('\r', '')
  const log = (phase === 'loading' ? whole : engineLines(whole)).replaceAll(PREFIX, '')
  for (const { kind, pattern, sentence, serving = false } of TABLE) {
    const match = phase === 'loading' || serving ? pattern.exec(log) : null
    if (match === null) continue
    const said = (match.groups?.said ?? '').trim().slice(0, SAID_CHARACTERS_MAX)
    return { kind, sentence: `${sentence(said, end)} Its log: ${log_file}` }
  }
  if (start_limit_s !== null) {
    const kernels =
      end.compiling === true ? ' FlashInfer was compiling kernels: the next start goes on with what is compiled.' : ''
    const said = `vLLM was not ready within ${start_limit_s} s (--vllm-start-limit-s) and is ended.${kernels}`
    return { kind: 'start_limit', sentence: said + endOf(log, log_file) }
  }
  return ended(end, log, KILLED.test(whole) ? 'certainly' : GONE.test(whole) ? 'perhaps' : 'no')
}

/**
 * While it serves, its API server logs what is wrong with single requests, and may quote them: what ended the engine is in
 * the lines of its own processes, and nothing else is passed on.
 */
function engineLines(log: string): string {
  return log
    .split('\n')
    .filter((line) => /^\((?:EngineCore|Worker|VllmWorker)/.test(line))
    .join('\n')
}

/** No row knows it: how it ended, and the exception that is its cause or, while it loads, the end of the log. */
function ended(
  { phase, exit, log_file }: VllmEnd,
  log: string,
  from_outside: 'certainly' | 'perhaps' | 'no',
): VllmFailure {
  const causes = [...log.matchAll(CAUSE)].map(([line]) => line)
  const cause = phase === 'loading' ? causes[0] : causes.at(-1)
  const silent = from_outside === 'perhaps' && cause === undefined
  const killed = exit?.signal === 'SIGKILL' || from_outside === 'certainly' || silent
  const when = phase === 'loading' ? 'while it loaded' : 'while it served'
  const said = `vLLM ended ${when} (${exitOf(exit)})`
  if (killed) {
    const sentence = `${said}: one of its processes was killed from outside. If that was not you, the kernel killed it for lack of memory: see dmesg. Its log: ${log_file}`
    return { kind: 'killed', sentence }
  }
  if (cause === undefined) {
    const rest = phase === 'loading' ? endOf(log, log_file) : ` Its log: ${log_file}`
    return { kind: 'died', sentence: `${said}.${rest}` }
  }
  return { kind: 'died', sentence: `${said}: ${cause.slice(0, SAID_CHARACTERS_MAX)} Its log: ${log_file}` }
}

function exitOf(exit: VllmEnd['exit']): string {
  if (exit === null) return 'how is not known'
  return exit.signal === null ? `exit code ${exit.code}` : `signal ${exit.signal}`
}

function endOf(log: string, log_file: string): string {
  const lines = log.trimEnd().split('\n')
  const tail = lines.slice(-TAIL_LINES).join('\n').slice(-TAIL_CHARACTERS_MAX)
  return tail === '' ? ` Its log ${log_file} is empty.` : ` The end of ${log_file}:\n${tail}`
}
