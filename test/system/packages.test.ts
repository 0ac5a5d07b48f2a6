/**
 * The npm packages as a registry gets them, unpacked beside this repository's dependencies: the operator's path from the
 * packages alone. `npm run test:packages` installs them with npm and pip into empty folders.
 */
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { assemble } from '../../lab/packages/assemble.ts'
import { NPM_PACKAGES, type PackageSpec } from '../../lab/packages/contents.ts'
import { operatorPath, type ServingSystem } from '../../lab/packages/operator-path.ts'
import { ROOT } from '../../lab/testbed/repository.ts'
import { runTool } from '../../ops/python/run-tool.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-packages-'))
const folderOf = ({ bin }: PackageSpec): string => path.join(folder, bin)
const filesOf = (spec: PackageSpec): string[] => readdirSync(folderOf(spec), { recursive: true }) as string[]

beforeAll(async () => {
  symlinkSync(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'))
  for (const spec of NPM_PACKAGES) {
    mkdirSync(folderOf(spec))
    await assemble(spec, folderOf(spec))
  }
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe.each(NPM_PACKAGES.map((spec) => [spec.name, spec] as const))('%s', (_, spec) => {
  it('holds JavaScript that names no TypeScript, no test and no script of the repository', () => {
    const code = filesOf(spec).filter((file) => file.endsWith('.js'))
    expect(code.length).toBeGreaterThan(50)
    for (const file of code) {
      const text = readFileSync(path.join(folderOf(spec), file), 'utf8')
      expect(text, file).not.toMatch(/from '\.[^']*\.ts'|import\('\.[^']*\.ts'\)/)
      if (/^(ops|cli)\//.test(file)) expect(text, file).not.toContain('npm run')
    }
    expect(filesOf(spec).filter((file) => /\.test\.|\.ts$|__pycache__/.test(file))).toEqual([])
  })

  it('states every package that its code imports, each at one version', () => {
    const { dependencies } = JSON.parse(readFileSync(path.join(folderOf(spec), 'package.json'), 'utf8')) as {
      dependencies: Record<string, string>
    }
    for (const version of Object.values(dependencies)) expect(version).toMatch(/^\d+\.\d+\.\d+/)
    expect(Object.keys(dependencies)).toContain('better-sqlite3')
    expect(Object.keys(dependencies)).not.toContain('wrangler')
  })
})

describe('the packages together', () => {
  let system: ServingSystem
  const bin = (name: string) => path.join(folder, name, 'bin.mjs')

  beforeAll(async () => {
    system = await operatorPath({ switchyard: bin('switchyard'), gpu_agent: bin('gpu-agent'), folder })
  })
  afterAll(() => system?.stop())

  it('answer a question on the agent that the command line enrolled', async () => {
    const response = await fetch(`${system.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${system.api_key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: system.model, max_tokens: 4, messages: [{ role: 'user', content: 'Hello' }] }),
    })
    const answer = (await response.json()) as { usage: { completion_tokens: number; switchyard: { engine: string } } }
    expect(answer.usage).toMatchObject({ completion_tokens: 4, switchyard: { engine: 'gpu-1-e0' } })
  })

  it('are set up by the script of compose.yaml, which can be repeated and changes nothing then', async () => {
    const keys = path.join(folder, 'keys')
    const path_folder = path.join(folder, 'path')
    mkdirSync(keys)
    mkdirSync(path_folder)
    symlinkSync(bin('switchyard'), path.join(path_folder, 'switchyard'))
    chmodSync(bin('switchyard'), 0o755)
    const env = {
      ...process.env,
      PATH: [path_folder, path.dirname(process.execPath), process.env.PATH].join(path.delimiter),
      ...{ SWITCHYARD_URL: system.url, SWITCHYARD_ADMIN_KEY: system.admin_key, KEYS: keys },
    }
    const setUp = () => runTool(['sh', path.join(ROOT, 'ops/compose/setup.sh')], { timeout_ms: 60_000, env })
    expect(await setUp()).toMatchObject({ status: 'done' })
    const made = ['demo.key', 'agent-1.token', 'agent-2.token'].map((name) =>
      readFileSync(path.join(keys, name), 'utf8'),
    )
    expect(made).toEqual([
      expect.stringMatching(/^sk-sy-\S+\n$/),
      ...[1, 2].map(() => expect.stringMatching(/^sya-\S+\n$/)),
    ])
    const models = await fetch(`${system.url}/v1/models`, { headers: { authorization: `Bearer ${made[0]?.trim()}` } })
    expect(models.status).toBe(200)
    expect(await setUp()).toMatchObject({ status: 'done' })
    expect(readFileSync(path.join(keys, 'agent-1.token'), 'utf8')).toBe(made[1])
    expect(await system.cli('agents', 'list')).toMatch(/agent-2\s+region-2/)
  })

  it('name their own commands in help and refusals', async () => {
    const help = await runTool([process.execPath, bin('switchyard'), 'up', '--help'], { timeout_ms: 20_000 })
    expect(help).toMatchObject({ status: 'done', output: expect.stringContaining('switchyard up [flags]') })
    const wrong = await runTool([process.execPath, bin('switchyard'), 'up', '--no-such'], { timeout_ms: 20_000 })
    expect(wrong).toMatchObject({ reason: expect.stringContaining('`switchyard up --help` lists the flags') })
  })
})
