import { writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ENGINES_PER_AGENT_MAX } from '../../src/protocol/index.ts'
import { STEP_TOKENS_MAX, THREADS_MAX, threadsPerEngine } from '../engine/backends/llama/llama-limits.ts'
import { HELP, parseCli, TOKEN_VARIABLE } from './options.ts'
import { temporaryFolder } from './testing/harness.ts'

const ENV = { [TOKEN_VARIABLE]: 'sya-secret' }
const LEAST = ['--id', 'a', '--region', 'r', '--control-url', 'http://127.0.0.1:8787/', '--engine', 'emulated']

function wrong(...argv: string[]): string {
  const verdict = parseCli(argv, ENV)
  return verdict.status === 'wrong' ? verdict.message : verdict.status
}

test('what is not given has the documented default', () => {
  expect(parseCli(LEAST, ENV)).toEqual({
    status: 'run',
    options: {
      id: 'a',
      region: 'r',
      control_url: 'http://127.0.0.1:8787',
      token: 'sya-secret',
      listen: { host: '127.0.0.1', port: 0 },
      public_url: null,
      engine: 'emulated',
      engines: 1,
      model_id: 'emulated-8b',
      policy: 'plas',
      front: {},
      data_dir: join('.switchyard', 'agents', 'a'),
      drain_limit_ms: 120_000,
      lend: null,
      metrics_token: null,
      otlp: null,
    },
  })
})

test('every flag is taken', () => {
  const argv = [
    '--id=a',
    '--region=r',
    '--control-url=https://c',
    '--model-path=/m.gguf',
    '--model-id=m',
    '--policy=fcfs',
  ]
  argv.push('--listen=[::1]:9000', '--public-url=https://h/x/', '--engines=2', '--seats=4', '--slots=8', '--threads=1')
  argv.push('--context-tokens=512', '--data-dir=/d', '--drain-limit-s=0')
  const verdict = parseCli(argv, ENV)
  expect(verdict.status === 'run' && verdict.options).toMatchObject({
    engine: 'embedded',
    model_id: 'm',
    policy: 'fcfs',
    listen: { host: '::1', port: 9000 },
    public_url: 'https://h/x',
    engines: 2,
    front: { model_path: '/m.gguf', seats: 4, slots: 8, threads: 1, context_tokens: 512 },
    data_dir: '/d',
    drain_limit_ms: 0,
  })
})

test('an embedded engine has the free cores, shared by the engines, unless --threads says otherwise', () => {
  const front = (...argv: string[]) => {
    const verdict = parseCli([...LEAST, '--engine=embedded', '--model-path=x', ...argv], ENV)
    return verdict.status === 'run' ? verdict.options.front : null
  }
  expect(front()).toEqual({ model_path: 'x', threads: threadsPerEngine(availableParallelism(), 1) })
  expect(front('--threads', '3', '--prefill-chunk-tokens', '63')).toMatchObject({
    threads: 3,
    prefill_chunk_tokens: 63,
  })
  expect([1, 2, 8, 16, 512].map((cores) => threadsPerEngine(cores, 1))).toEqual([1, 1, 7, 15, THREADS_MAX])
  expect([1, 2, 3, 4, 8].map((engines) => threadsPerEngine(9, engines))).toEqual([8, 4, 2, 2, 1])
})

test('holds of contexts are on or off, and those of a vLLM that runs already are its own', () => {
  const held = (...argv: string[]) => {
    const verdict = parseCli([...LEAST, ...argv], ENV)
    return verdict.status === 'run' ? verdict.options.front.hold_kv : verdict
  }
  expect(held('--engine=emulated')).toBeUndefined()
  expect(held('--engine=emulated', '--hold-kv=off')).toBe(false)
  expect(held('--engine=vllm', '--model=org/name', '--hold-kv=on')).toBe(true)
  expect(wrong(...LEAST, '--engine=emulated', '--hold-kv=no')).toBe('--hold-kv is one of on, off, not no')
  expect(wrong(...LEAST, '--engine=vllm', '--vllm-url=http://h', '--hold-kv=off')).toMatch(
    /^--hold-kv does not go with --vllm-url: set hold_kv/,
  )
})

test('what a policy chooses from for contexts is named with a policy that handles them, on an engine that can do it', () => {
  const handling = (...argv: string[]) => {
    const verdict = parseCli([...LEAST, ...argv], ENV)
    return verdict.status === 'run' ? verdict.options.front.handling : verdict
  }
  expect(handling('--engine=emulated', '--policy=lamps')).toBeUndefined()
  expect(handling('--engine=emulated', '--policy=lamps', '--handling=preserve,swap')).toEqual(['preserve', 'swap'])
  const vllm = ['--engine=vllm', '--model=org/name', '--policy=infercept', '--handling=swap']
  expect(handling(...vllm, '--kv-swap-gib=1')).toEqual(['swap'])
  expect(wrong(...LEAST, ...vllm)).toMatch(/^--handling swap needs --kv-swap-gib/)
  expect(wrong(...LEAST, '--engine=emulated', '--policy=lamps', '--handling=keep')).toBe(
    '--handling is one of preserve, discard, swap, not keep',
  )
  expect(wrong(...LEAST, '--engine=emulated', '--policy=plas', '--handling=swap')).toMatch(
    /^--handling goes with --policy lamps, .*: plas handles no contexts/,
  )
  expect(wrong(...LEAST, '--engine=vllm', '--vllm-url=http://h', '--policy=lamps', '--handling=swap')).toMatch(
    /^--handling does not go with --vllm-url: set handling/,
  )
})

test('lengths are learned where the engine computes prompts itself, and only if asked for', () => {
  const learns = (...argv: string[]) => {
    const verdict = parseCli([...LEAST, '--model-path=x', ...argv], ENV)
    return verdict.status === 'run' ? verdict.options.front.learn_lengths : verdict
  }
  expect(learns('--engine=embedded')).toBeUndefined()
  expect(learns('--engine=embedded', '--learn-lengths=on')).toBe(true)
  expect(learns('--engine=embedded', '--learn-lengths=off')).toBe(false)
  expect(wrong(...LEAST, '--engine=emulated', '--learn-lengths=on')).toBe('--learn-lengths goes with --engine embedded')
})

test('a prompt chunk has at most as many tokens as a step', () => {
  const embedded = [...LEAST, '--engine=embedded', '--model-path=x']
  expect(wrong(...embedded, `--prefill-chunk-tokens=${STEP_TOKENS_MAX}`)).toBe('run')
  expect(wrong(...embedded, `--prefill-chunk-tokens=${STEP_TOKENS_MAX + 1}`)).toMatch(
    /^--prefill-chunk-tokens is .* 512/,
  )
  expect(wrong(...LEAST, '--prefill-chunk-tokens=63')).toBe('--prefill-chunk-tokens goes with --engine embedded')
})

test('metrics and traces are set by the environment, and what cannot be meant is named', () => {
  const env = { ...ENV, SWITCHYARD_METRICS_TOKEN: ' reader ', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' }
  const verdict = parseCli(LEAST, env)
  expect(verdict.status === 'run' && verdict.options).toMatchObject({
    metrics_token: 'reader',
    otlp: { url: 'http://127.0.0.1:4318/v1/traces', headers: {}, ratio: 1 },
  })
  expect(parseCli(LEAST, { ...ENV, OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' })).toMatchObject({
    status: 'wrong',
    message: expect.stringContaining('OTEL_EXPORTER_OTLP_ENDPOINT'),
  })
})

test('help wins over what is missing, and names every flag', () => {
  expect(parseCli(['--help'], {})).toEqual({ status: 'help' })
  for (const flag of [
    '--vllm-start-limit-s',
    '--vllm-order',
    '--token-file',
    '--drain-limit-s',
    '--profile',
    '--script',
    TOKEN_VARIABLE,
  ])
    expect(HELP).toContain(flag)
})

test('a wrong flag is named', () => {
  expect(wrong()).toBe('--id is required')
  expect(wrong('--id', 'a')).toBe('--region is required')
  expect(wrong('--id', 'a\n')).toMatch(/^--id: .*printable/)
  expect(wrong('--id', 'a'.repeat(129))).toMatch(/^--id: .*128/)
  expect(wrong('--idd', 'a')).toContain("'--idd'")
  expect(wrong(...LEAST, 'stray')).toContain('stray')
  expect(wrong(...LEAST, '--engine', 'sglang')).toBe(
    '--engine is one of embedded, emulated, scripted, vllm, openai, not sglang',
  )
  expect(wrong(...LEAST, '--engine', 'embedded')).toBe('--model-path is required')
  expect(wrong(...LEAST, '--model-path', 'x')).toBe('--model-path goes with --engine embedded')
  expect(wrong(...LEAST, '--threads', '1')).toBe('--threads goes with --engine embedded')
  expect(wrong(...LEAST, '--engine=embedded', '--model-path=x', '--profile=p')).toBe(
    '--profile goes with --engine emulated or scripted',
  )
  expect(wrong(...LEAST, '--engine', 'scripted')).toBe('--script is required')
  expect(wrong(...LEAST, '--script', 'x')).toBe('--script goes with --engine scripted')
  const embedded = ['--engine=embedded', '--model-path=x']
  for (const flag of ['--temperature=2.1', '--temperature=-1', '--temperature=x', '--top-p=1.1', '--top-p='])
    expect(wrong(...LEAST, ...embedded, flag)).toMatch(/is a number from 0 to [12], not/)
  expect(wrong(...LEAST, '--system-prompt', 'x')).toBe('--system-prompt goes with --engine embedded')
  expect(wrong(...LEAST, '--policy', 'infercept')).toBe('run')
  for (const server of [
    ['--engine=openai', '--url=http://127.0.0.1:1'],
    ['--engine=vllm', '--vllm-url=http://127.0.0.1:1', '--model-id=m'],
  ])
    expect(wrong(...LEAST, ...server, '--policy', 'infercept')).toMatch(
      /^--policy infercept handles contexts while tools run, .* Take one of fcfs, .* or --engine vllm/,
    )
  expect(wrong(...LEAST, '--policy', 'lifo')).toMatch(/^--policy is one of fcfs, fcfs-program, mlfq/)
  const vllm = ['--engine=vllm', '--vllm-url=http://127.0.0.1:1', '--model-id=m']
  expect(wrong(...LEAST, ...vllm, '--policy=learned')).toBe('run')
  expect(wrong(...LEAST, ...vllm, '--kv-tokens=9000')).toBe('run')
  expect(wrong(...LEAST, ...vllm, '--kv-tokens=none')).toMatch(/^--kv-tokens is a whole number/)
  expect(wrong(...LEAST, ...vllm, '--vllm-socket=/s', '--kv-tokens=9000')).toMatch(/^--kv-tokens does not go with/)
  expect(wrong(...LEAST, '--engine=vllm', '--model=m', '--kv-tokens=9000')).toBe('--kv-tokens goes with --vllm-url')
  expect(wrong(...LEAST, '--kv-tokens=9000')).toBe('--kv-tokens goes with --engine vllm or openai')
  for (const engines of ['0', String(ENGINES_PER_AGENT_MAX + 1), '1.5', '-1', 'many', '']) {
    expect(wrong(...LEAST, `--engines=${engines}`)).toMatch(/^--engines is a whole number from 1 to 64/)
  }
  expect(wrong(...LEAST, '--engines', String(ENGINES_PER_AGENT_MAX))).toBe('run')
  for (const listen of ['9000', 'host:', 'host:99999', ':1']) {
    expect(wrong(...LEAST, '--listen', listen)).toMatch(/^--listen is HOST:PORT/)
  }
  expect(wrong(...LEAST, '--listen', '0.0.0.0:9000')).toMatch(/^--public-url is needed/)
  for (const url of ['ftp://x', 'x', 'http://u@x', 'http://x?y']) {
    expect(wrong(...LEAST, '--control-url', url)).toMatch(/^--control-url (is|must be) /)
  }
})

test('the token comes from a file or the environment, and must be one', () => {
  const file = join(temporaryFolder(), 'token')
  writeFileSync(file, 'sya-from-file\n')
  const verdict = parseCli([...LEAST, '--token-file', file], ENV)
  expect(verdict.status === 'run' && verdict.options.token).toBe('sya-from-file')
  const none = parseCli(LEAST, {})
  expect(none.status === 'wrong' && none.message).toMatch(/^a token is needed: --token-file/)
  expect(wrong(...LEAST, '--token-file', `${file}-absent`)).toMatch(/^--token-file cannot be read: ENOENT/)
  writeFileSync(file, 'two words')
  expect(wrong(...LEAST, '--token-file', file)).toBe('the token has characters that a token cannot have')
})

test('--engine openai takes any server by its URL, its key by the name of a variable, and its models as they are called', () => {
  const env = { ...ENV, SERVER_KEY: ' sk-secret ' }
  const given = ['--engine', 'openai', '--url', 'http://127.0.0.1:11434/v1/', '--key-env', 'SERVER_KEY', '--seats', '3']
  const verdict = parseCli([...LEAST, ...given, '--model', 'a,org/b:8b', '--kv-tokens', '9000'], env)
  expect(verdict).toMatchObject({
    status: 'run',
    options: {
      ...{ engine: 'openai', model_id: null },
      front: {
        seats: 3,
        server: {
          ...{ url: 'http://127.0.0.1:11434', api_key: 'sk-secret', key_variable: 'SERVER_KEY', kind: null },
          ...{ models: ['a', 'org/b:8b'], kv_tokens: 9000, probe: true, start_limit_ms: 120_000 },
        },
      },
    },
  })
  const far = parseCli([...LEAST, '--engine', 'openai', '--url', 'https://api.example.com/v1'], ENV)
  expect(far, 'calls to a hosted model are the operator’s to ask for').toMatchObject({
    options: { front: { server: { url: 'https://api.example.com', probe: false, api_key: null } } },
  })
})

test('which APIs a server speaks, how it takes its key, and of what its limits are', () => {
  const of = (...flags: string[]) => parseCli([...LEAST, '--engine', 'openai', ...flags], ENV)
  const serverOf = (server: object) => ({ options: { front: { server } } })
  const local = ['--url', 'http://127.0.0.1:1']
  expect(of(...local)).toMatchObject(serverOf({ native: null, limits_per: 'key', api: 'openai', key_header: null }))
  expect(of(...local, '--api', 'chat, messages')).toMatchObject(serverOf({ native: ['messages'], api: 'openai' }))
  expect(of(...local, '--api', 'chat')).toMatchObject(serverOf({ native: [] }))
  const alone = serverOf({ native: ['messages'], api: 'messages', kind: 'anthropic' })
  expect(of(...local, '--api', 'messages')).toMatchObject(alone)
  expect(of(...local, '--limit', 'm:requests=1/min')).toMatchObject(serverOf({ limits_per: 'model' }))
  const azure = 'https://n.openai.azure.com/openai/deployments/m?api-version=2024-10-21'
  const deployed = { url: azure.split('?')[0], api_version: '2024-10-21', limits_per: 'model' }
  expect(of('--url', azure)).toMatchObject(serverOf(deployed))
  const message = (...flags: string[]) => {
    const verdict = of(...local, ...flags)
    return verdict.status === 'wrong' ? verdict.message : 'taken'
  }
  expect(message('--api', 'responses')).toMatch(/must have chat or messages/)
  expect(message('--api', 'grpc')).toMatch(/--api/)
  expect(message('--api', 'chat', '--kind', 'anthropic')).toMatch(/speaks Messages and no chat/)
  expect(message('--key-header', 'cookie')).toMatch(/--key-header/)
  expect(message('--limits-per', 'key', '--limit', 'm:requests=1/min')).toMatch(/names a model/)
  expect(message('--limit', 'm:requests=1/min,m:requests=2/min')).toMatch(/was given before/)
})

test('limits, several keys, and the API that an address has', () => {
  const env = { ...ENV, ONE: 'sk-1', TWO: 'sk-2', SAME: 'sk-1' }
  const api = ['--engine', 'openai', '--url', 'https://api.anthropic.com']
  const found = parseCli([...LEAST, ...api, '--key-env', 'ONE,TWO', '--limit', 'requests=50/min,input=30k/min'], env)
  expect(found).toMatchObject({
    options: {
      front: {
        server: {
          ...{
            kind: 'anthropic',
            api: 'messages',
            api_key: 'sk-1',
            further_keys: [{ key_variable: 'TWO', api_key: 'sk-2' }],
          },
          limits: [
            { quantity: 'requests', amount: 50 },
            { quantity: 'input', amount: 30_000 },
          ],
        },
      },
    },
  })
  const same = parseCli([...LEAST, ...api, '--key-env', 'ONE,SAME'], env)
  expect(same.status === 'wrong' && same.message).toBe(
    '--key-env: SAME has the same key as a variable before it: a key has one queue',
  )
})

test('flags of a server that cannot be meant are refused, and no key is shown', () => {
  const server = ['--engine', 'openai', '--url', 'http://h']
  expect(wrong(...LEAST, '--engine', 'openai')).toBe('--url is required')
  expect(wrong(...LEAST, '--engine', 'openai', '--url', 'h:11434')).toBe(
    '--url must be an http or https URL, not "h:11434"',
  )
  expect(wrong(...LEAST, '--engine', 'openai', '--url', 'http://u:secret@h')).not.toContain('secret')
  expect(wrong(...LEAST, ...server, '--key-env', 'sk-abc-123')).not.toContain('sk-abc')
  expect(wrong(...LEAST, ...server, '--limit', 'requests=-5/min')).toMatch(
    /^--limit requests=-5\/min: "-5" is no limit/,
  )
  expect(wrong(...LEAST, ...server, '--limit', 'requests=5/min,requests=6/min')).toMatch(/given before/)
  expect(wrong(...LEAST, ...server, '--key-env', 'NOT_SET')).toBe('--key-env: the variable NOT_SET is not set')
  expect(wrong(...LEAST, ...server, '--kind', 'best')).toContain('--kind is one of vllm, sglang, llama.cpp')
  expect(wrong(...LEAST, ...server, '--kv-tokens', '5.5')).toContain('--kv-tokens is a whole number')
  expect(wrong(...LEAST, ...server, '--engines', '2')).toContain('each model of the server is one')
  expect(wrong(...LEAST, ...server, '--slots', '2')).toContain('--slots does not go with --engine openai')
  expect(wrong(...LEAST, '--engine', 'emulated', '--url', 'http://h')).toBe('--url goes with --engine openai')
})

test('--lend needs GPUs and models to start, and engines that the agent runs', () => {
  const lend = ['--lend', 'spare', '--lend-gpus', '2', '--startable', 'missing.json']
  expect(wrong(...LEAST, ...lend)).toMatch(/missing\.json cannot be read/)
  expect(wrong(...LEAST, '--lend', 'on')).toBe('--lend is one of spare, all, not on')
  expect(wrong(...LEAST, '--lend', 'all')).toBe('--lend-gpus is required')
  expect(wrong(...LEAST, '--lend', 'all', '--lend-gpus', '65')).toMatch(/--lend-gpus is a whole number from 1 to 64/)
  expect(wrong(...LEAST, '--lend', 'all', '--lend-gpus', '1')).toBe('--startable is required')
  expect(wrong(...LEAST, '--lend-gpus', '1')).toBe('--lend-gpus goes with --lend spare or --lend all')
  expect(wrong(...LEAST, '--startable', 'x')).toBe('--startable goes with --lend spare or --lend all')
  expect(wrong(...LEAST, '--engine', 'openai', '--url', 'http://127.0.0.1:1', ...lend)).toMatch(/cannot end a server/)
  expect(wrong(...LEAST, '--engine', 'vllm', '--model', 'x/y', '--gpus', '0,2', ...lend)).toBe(
    '--lend-gpus 2: its own engines use GPU 2',
  )
})
