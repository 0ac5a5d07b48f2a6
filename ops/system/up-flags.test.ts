import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { readFlags } from '../../cli/flags.ts'
import { ENGINE_POLICY_NAMES } from '../../gpu-agent/engine/order/policies/index.ts'
import { BALANCER_NAMES } from '../../src/core/pool/balancers/index.ts'
import { ENGINES_PER_REGION_MAX, parseUpFlags, REGIONS_MAX, UP_HELP } from './up-flags.ts'

function reasonOf(...argv: string[]): string {
  const verdict = parseUpFlags(argv)
  return verdict.status === 'refused' ? verdict.reason : `accepted: ${JSON.stringify(verdict)}`
}

function optionsOf(...argv: string[]) {
  const verdict = parseUpFlags(argv)
  if (verdict.status !== 'ok') throw new Error(JSON.stringify(verdict))
  return verdict.options
}

test('without flags: port 8787, two regions, one embedded engine each, least attained service first', () => {
  expect(optionsOf()).toEqual({
    production: false,
    bind: '127.0.0.1',
    port: 8787,
    regions: ['us-east', 'eu-west'],
    enginesPerRegion: 1,
    engine: 'embedded',
    model: undefined,
    script: undefined,
    seats: undefined,
    contextTokens: undefined,
    vllmArgs: undefined,
    server: null,
    lend: null,
    policy: 'plas',
    balancer: 'cost-aware',
    workers: 1,
    regionRtt_ms: 80,
    programStaleAfter_s: 1800,
    dataDir: '.switchyard',
    detach: false,
    json: false,
  })
})

test('help names every flag', () => {
  expect(parseUpFlags(['--help'])).toEqual({ status: 'help' })
  for (const flag of [
    'port',
    'regions',
    'engines-per-region',
    'engine',
    'balancer',
    'model',
    'script',
    'seats',
    'context-tokens',
    'vllm-args',
    'lend',
    'lend-gpus',
    'url',
    'key-env',
    'limit',
    'kind',
    'kv-tokens',
    'probe',
    'policy',
    'region-rtt-ms',
    'data-dir',
    'detach',
  ])
    expect(UP_HELP).toContain(`--${flag}`)
})

test('each wrong value is refused with the flag and what would be right', () => {
  expect(reasonOf('--port', '0')).toBe('--port must be a whole number from 1 to 65535, not "0"')
  expect(reasonOf('--port', '8787x')).toContain('--port must be')
  expect(reasonOf('--port', '65536')).toContain('--port must be')
  expect(reasonOf('--region-rtt-ms', '-1')).toContain('--region-rtt-ms')
  expect(reasonOf('--engine', 'sglang')).toBe(
    '--engine must be one of embedded, emulated, scripted, vllm, openai, not "sglang"',
  )
  expect(optionsOf('--seats', '4096').seats).toBe(4096)
  expect(reasonOf('--seats', '4097')).toBe('--seats must be a whole number from 1 to 4096, not "4097"')
  expect(reasonOf('--vllm-args', '--dtype float32')).toBe('--vllm-args goes with --engine vllm')
  expect(reasonOf('--policy', 'sjf')).toBe(`--policy must be one of ${ENGINE_POLICY_NAMES.join(', ')}, not "sjf"`)
  expect(optionsOf('--policy', 'lamps').policy).toBe('lamps')
  expect(reasonOf('--policy', 'lamps', '--url', 'http://127.0.0.1:1')).toMatch(
    /^--policy lamps handles contexts while tools run, .* Take one of fcfs/,
  )
  for (const engine of ['emulated', 'vllm'])
    expect(optionsOf('--policy', 'learned', '--engine', engine).policy).toBe('learned')
  expect(reasonOf('--balancer', 'sticky')).toBe(`--balancer must be one of ${BALANCER_NAMES.join(', ')}, not "sticky"`)
  expect(reasonOf('--regions', 'us-east,,eu')).toContain('--regions must be names')
  expect(reasonOf('--regions', 'US')).toContain('not "US"')
  expect(reasonOf('--regions', 'a,b,a')).toBe('--regions names a twice')
  expect(reasonOf('--model', '')).toContain('--model')
  expect(reasonOf('--data-dir', '')).toContain('--data-dir')
  expect(reasonOf('--engine', 'emulated', '--model', './m.gguf')).toContain('loads no weights')
})

test('an unknown flag and a stray word are refused with a pointer to --help', () => {
  expect(reasonOf('--prot', '1')).toContain("Unknown option '--prot'")
  expect(reasonOf('--prot', '1')).toContain('--help')
  expect(reasonOf('now')).toContain("'now'")
})

test('regions and engines are taken up to their bounds and refused one past them', () => {
  const names = Array.from({ length: REGIONS_MAX + 1 }, (_, index) => `r${index}`)
  expect(optionsOf('--regions', names.slice(1).join(',')).regions).toHaveLength(REGIONS_MAX)
  expect(reasonOf('--regions', names.join(','))).toBe(`--regions names ${REGIONS_MAX + 1}; at most ${REGIONS_MAX}`)
  expect(optionsOf('--engines-per-region', String(ENGINES_PER_REGION_MAX)).enginesPerRegion).toBe(
    ENGINES_PER_REGION_MAX,
  )
  expect(reasonOf('--engines-per-region', String(ENGINES_PER_REGION_MAX + 1))).toContain('--engines-per-region')
})

test('a context is a whole number within bounds', () => {
  expect(optionsOf('--context-tokens', '65536').contextTokens).toBe(65_536)
  for (const wrong of ['255', '16777217', '1e5', '']) {
    expect(reasonOf('--context-tokens', wrong)).toContain(
      '--context-tokens must be a whole number from 256 to 16777216',
    )
  }
})

test('a scripted engine needs a script, and no other engine takes one', () => {
  expect(optionsOf('--engine', 'scripted', '--script', 'a.json')).toMatchObject({ model: 'scripted', script: 'a.json' })
  expect(reasonOf('--engine', 'scripted')).toContain('--script FILE')
  expect(reasonOf('--engine', 'scripted', '--script', '')).toContain('--script FILE')
  expect(reasonOf('--script', 'a.json')).toBe('--script goes with --engine scripted')
})

test('an emulated engine needs no model; --model is then its name', () => {
  expect(optionsOf('--engine', 'emulated').model).toBe('emulated-8b')
  expect(optionsOf('--engine', 'emulated', '--model', 'big_1.5').model).toBe('big_1.5')
})

test('--production binds to 127.0.0.1 unless told otherwise', () => {
  expect(optionsOf('--production')).toMatchObject({ production: true, bind: '127.0.0.1', port: 8787 })
  expect(optionsOf('--production', '--bind', '::', '--port', '80')).toMatchObject({ bind: '::', port: 80 })
})

test.each([
  [['--production', '--bind', 'localhost'], '--bind must be an IP address, not "localhost"'],
  [['--production', '--engine', 'emulated'], '--engine does not go with --production: agents run on their own hosts'],
  [['--production', '--regions=us-east'], '--regions does not go with --production'],
  [['--production', '--detach'], '--detach does not go with --production: let a service manager keep it running'],
  [['--bind', '0.0.0.0'], '--bind goes with --production'],
])('production: %j is refused', (argv, reason) => {
  expect(reasonOf(...argv)).toContain(reason)
})

test('one vLLM, unless more are asked for: each takes 5 GB', () => {
  expect(optionsOf('--engine', 'vllm')).toMatchObject({ regions: ['us-east'], enginesPerRegion: 1, model: undefined })
  expect(optionsOf('--engine', 'vllm', '--regions', 'a,b').regions).toEqual(['a', 'b'])
  expect(optionsOf('--engine', 'vllm', '--vllm-args', '--dtype float32').vllmArgs).toBe('--dtype float32')
})

test.each([
  [['19002'], { npm_config_port: 'true' }, '`npm run up -- --port …`'],
  [[], { npm_config_data_dir: '/data' }, '`npm run up -- --data-dir …`'],
])('a flag before `--`, which npm keeps, is named: %j', (argv, env, line) => {
  const options = { port: { type: 'string' }, 'data-dir': { type: 'string' }, json: { type: 'string' } } as const
  const npm = { npm_command: 'run', ...env }
  expect(readFlags('up', argv, options, npm)).toEqual({ ok: false, reason: expect.stringContaining(line) })
  expect(readFlags('up', ['--port', '1', '--data-dir', 'x'], options, npm).ok).toBe(true)
  expect(readFlags('up', [], options, { npm_command: 'run', npm_config_json: 'true' }).ok).toBe(true)
  expect(readFlags('up', [], options, env).ok).toBe(true)
})

test('--url is a server that runs already, with or without /v1, in one region', () => {
  for (const url of ['http://127.0.0.1:11434', 'http://127.0.0.1:11434/v1', 'http://127.0.0.1:11434/v1/']) {
    const server = { url: 'http://127.0.0.1:11434', given: { url } }
    expect(optionsOf('--url', url)).toMatchObject({ engine: 'openai', regions: ['us-east'], server })
  }
  process.env.TEST_SERVER_KEY = 'sk-secret'
  expect(optionsOf('--url', 'https://h/api/v1', '--key-env', 'TEST_SERVER_KEY').server).toMatchObject({
    url: 'https://h/api',
    given: { 'key-env': 'TEST_SERVER_KEY' },
  })
  delete process.env.TEST_SERVER_KEY
})

test('a server that cannot be meant is refused, and no key is shown', () => {
  expect(reasonOf('--url', 'localhost:11434')).toBe('--url must be an http or https URL, not "localhost:11434"')
  expect(reasonOf('--engine', 'openai')).toContain('needs --url')
  expect(reasonOf('--kind', 'vllm')).toBe('--kind goes with --engine openai')
  expect(reasonOf('--url', 'http://h', '--kind', 'best')).toContain('--kind is one of vllm, sglang, llama.cpp, ollama')
  expect(reasonOf('--url', 'http://h', '--key-env', 'sk-abc')).not.toContain('sk-abc')
  expect(reasonOf('--url', 'http://h', '--key-env', 'NOT_SET_ANYWHERE')).toContain('NOT_SET_ANYWHERE is not set')
  expect(reasonOf('--url', 'http://h', '--kv-tokens', '-1')).toContain('--kv-tokens')
  expect(reasonOf('--url', 'http://h', '--regions', 'a,b')).toContain('one server has one queue')
  expect(reasonOf('--url', 'http://h', '--engines-per-region', '2')).toContain('one server has one queue')
  expect(reasonOf('--url', 'http://user:pw@h')).not.toContain('pw@')
})

test('--lend names models that agents start, and is checked before anything runs', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-lend-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file = path.join(folder, 'models.json')
  const model = { model: 'one', engine: 'emulated', plans: [{ gpus: 1, profile: 'tiny', loading_s: 1 }] }
  writeFileSync(file, JSON.stringify({ models: [model, { ...model, model: 'two', flags: { 'context-tokens': 512 } }] }))
  expect(optionsOf('--lend', file).lend).toEqual({
    ...{ file, gpus: 2 },
    models: [
      { id: 'one', context_tokens: 4096 },
      { id: 'two', context_tokens: 512 },
    ],
  })
  expect(optionsOf('--lend', file, '--lend-gpus', '4').lend?.gpus).toBe(4)
  expect(reasonOf('--lend', path.join(folder, 'no.json'))).toMatch(/^--lend|no.json cannot be read/)
  expect(reasonOf('--lend', file, '--lend-gpus', '0')).toMatch(/--lend-gpus must be a whole number from 1 to 64/)
  expect(reasonOf('--lend-gpus', '2')).toBe('--lend-gpus goes with --lend FILE')
  expect(reasonOf('--url', 'http://h', '--lend', file)).toMatch(/cannot end a server/)
  expect(reasonOf('--production', '--lend', file)).toMatch(/--lend does not go with --production/)
})
