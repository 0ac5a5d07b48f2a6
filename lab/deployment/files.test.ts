/** Images, compose.yaml, manifests and units against the code: every command, flag, path, variable and time in them. */
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { parseCli } from '../../gpu-agent/src/options.ts'
import { EXIT_CONFIG } from '../../ops/system/explain-error.ts'
import { parseUpFlags } from '../../ops/system/up-flags.ts'
import { NPM_PACKAGES } from '../packages/contents.ts'
import { ROOT } from '../testbed/repository.ts'
import {
  composeAgents,
  composeFile,
  imageCommand,
  kubernetesAgent,
  read,
  type StartCommand,
  unit,
} from './agent-commands.ts'

const CONTROL_PLANE = 'ops/images/control-plane.Dockerfile'
const AGENT = 'ops/images/gpu-agent.Dockerfile'
const SYSTEMD = 'ops/systemd'
/** After the drain: vLLM's own end and the last records. */
const AFTER_DRAIN_S = 30

const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-deployment-'))
const file = path.join(folder, 'file')
writeFileSync(file, 'sya-token\n')
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const VLLM_UNIT = unit(`${SYSTEMD}/gpu-agent.service`)
const VARIABLES = {
  AGENT_ID: 'gpu-1',
  REGION: 'us-east',
  CONTROL_URL: 'https://c.example',
  PUBLIC_URL: 'https://g.example',
  MODEL: 'm',
}

const unitAgent: StartCommand = {
  where: `${SYSTEMD}/gpu-agent.service`,
  args: VLLM_UNIT.command
    .slice(2)
    .map((word) => word.replaceAll(/\$\{(\w+)\}/g, (_, name: keyof typeof VARIABLES) => VARIABLES[name] ?? '')),
  stop_s: Number(VLLM_UNIT.settings.get('TimeoutStopSec')),
}

/** Files of another machine are looked for here. */
function onThisMachine(args: readonly string[]): string[] {
  return args
    .join('\n')
    .replaceAll(/(--(?:token-file|model-path)[=\n])\S+/g, `$1${file}`)
    .split('\n')
}

describe.each([...composeAgents(), kubernetesAgent(), unitAgent])('the agent of $where', ({ args, stop_s }) => {
  const verdict = parseCli(onThisMachine(args), {})

  test('has flags that it takes', () => expect(verdict).toMatchObject({ status: 'run' }))

  test('gets the time that its drain takes', () => {
    const drain_ms = verdict.status === 'run' ? verdict.options.drain_limit_ms : Number.NaN
    expect(stop_s).toBeGreaterThanOrEqual(drain_ms / 1000 + AFTER_DRAIN_S)
  })
})

test('there are two agents in compose.yaml, of different ids and regions', () => {
  const options = composeAgents().map(({ args }) => parseCli(onThisMachine(args), {}))
  const of = (name: 'id' | 'region') =>
    options.map((verdict) => (verdict.status === 'run' ? verdict.options[name] : null))
  expect(of('id')).toEqual(['agent-1', 'agent-2'])
  expect(new Set(of('region')).size).toBe(2)
})

test('Kubernetes waits for a start as long as the agent does', () => {
  const verdict = parseCli(onThisMachine(kubernetesAgent().args), {})
  const vllm = verdict.status === 'run' ? verdict.options.front.vllm : undefined
  expect(kubernetesAgent().start_s * 1000).toBeGreaterThan(vllm?.start_limit_ms ?? Number.NaN)
})

test('the control plane’s image runs the package’s command with flags that it takes', () => {
  const commands = NPM_PACKAGES.map(({ bin }) => bin)
  const [up, ...flags] = imageCommand(CONTROL_PLANE, null, 'CMD')
  expect(commands).toContain(imageCommand(CONTROL_PLANE, null, 'ENTRYPOINT')[0])
  expect(up).toBe('up')
  expect(parseUpFlags(flags)).toMatchObject({
    status: 'ok',
    options: { production: true, bind: '0.0.0.0', port: 8787 },
  })
  for (const target of ['embedded', 'vllm']) expect(commands).toContain(imageCommand(AGENT, target, 'ENTRYPOINT')[0])
})

test('images have the Node and the vLLM that are tested', () => {
  const { devDependencies, overrides } = JSON.parse(read('package.json')) as Record<string, Record<string, string>>
  for (const image of [CONTROL_PLANE, AGENT]) {
    expect(read(image)).toContain(`ARG NODE=node:${devDependencies?.node}-bookworm-slim\n`)
    const packed = [...read(image).matchAll(/--only (\S+)/g)].map(([, name]) => name)
    for (const name of packed) expect(NPM_PACKAGES.map((spec) => spec.name)).toContain(name)
    expect(packed).toHaveLength(1)
  }
  const vllm = /^vllm==(\S+)/m.exec(read('gpu-agent/vllm/requirements/vllm-gpu.txt'))?.[1]
  expect(read(AGENT)).toContain(`ARG VLLM=vllm/vllm-openai:v${vllm}\n`)
  const left_out = JSON.parse(read('ops/images/package.json')) as { overrides: Record<string, string> }
  for (const name of Object.keys(left_out.overrides)) expect(Object.keys(overrides ?? {})).toContain(name)
})

test('every path that they copy or mount exists', () => {
  const copied = [CONTROL_PLANE, AGENT].flatMap((image) =>
    [...read(image).matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, sources = '']) => sources.split(' ')),
  )
  const { services } = composeFile()
  const mounted = Object.values(services).flatMap(({ volumes = [], build }) => [
    ...volumes.filter((volume) => volume.startsWith('./')).map((volume) => volume.split(':')[0] ?? ''),
    ...(build === undefined ? [] : [build.dockerfile]),
  ])
  expect(mounted.length).toBeGreaterThan(4)
  for (const name of [...copied, ...mounted]) expect(existsSync(path.join(ROOT, name)), name).toBe(true)
})

test('every variable of our own services is one that the code or the script reads', () => {
  const code = ['ops', 'src', 'gpu-agent/src'].flatMap((root) =>
    (readdirSync(path.join(ROOT, root), { recursive: true }) as string[])
      .filter((name) => /\.(ts|sh)$/.test(name) && !name.endsWith('.test.ts'))
      .map((name) => read(path.join(root, name))),
  )
  const whole = code.join('\n')
  const { services } = composeFile()
  const own = Object.values(services).filter(({ image }) => image.startsWith('switchyard'))
  const names = [
    ...own.flatMap(({ environment = {} }) => Object.keys(environment)),
    ...[...read(AGENT).matchAll(/\b(SWITCHYARD_\w+)=/g)].map(([, name = '']) => name),
    ...[...read(`${SYSTEMD}/switchyard.service`).matchAll(/\b([A-Z]+_[A-Z]+)=…/g)].map(([, name = '']) => name),
  ]
  expect(names.length).toBeGreaterThan(8)
  for (const name of names) expect(whole, name).toMatch(new RegExp(`\\b${name}\\b`))
})

test('Prometheus scrapes every service of compose.yaml that has metrics, at its port', () => {
  const targets = [...read('ops/prometheus/prometheus.yml').matchAll(/"([\w-]+:\d+)"/g)].map(([, target]) => target)
  const agents = composeAgents().map(({ args }) => parseCli(onThisMachine(args), {}))
  const expected = agents.map((verdict) =>
    verdict.status === 'run' ? `${verdict.options.id}:${verdict.options.listen.port}` : '',
  )
  expect(targets.sort()).toEqual([...expected, 'control-plane:8787'].sort())
})

describe('the units', () => {
  test('start what exists, with flags that are accepted, and never twice in vain', () => {
    const { settings, command } = unit(`${SYSTEMD}/switchyard.service`)
    const [node, bootstrap, script, ...args] = command
    expect([node, bootstrap, script]).toEqual(['/usr/bin/node', 'ops/bootstrap.mjs', 'ops/up.ts'])
    expect(parseUpFlags(args)).toMatchObject({ status: 'ok', options: { production: true } })
    expect(args.at(-1)).toBe(`/var/lib/${settings.get('StateDirectory')}`)
    expect(settings.get('RestartPreventExitStatus')).toBe(`${EXIT_CONFIG}`)
  })

  test('run the agent on its own Node, and never restart what is refused', () => {
    const { settings, command } = VLLM_UNIT
    expect(command.slice(0, 2)).toEqual(['/opt/switchyard/node_modules/.bin/node', 'gpu-agent/src/main.ts'])
    expect(existsSync(path.join(ROOT, command[1] ?? ''))).toBe(true)
    expect(settings.get('RestartPreventExitStatus')).toBe(`2 ${EXIT_CONFIG}`)
    expect(settings.get('KillMode')).toBe('process')
  })
})
