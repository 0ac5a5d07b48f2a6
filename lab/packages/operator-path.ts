/**
 * The main job of the installed packages, as an operator does it: the control plane alone, a region, a model, a tenant, a key
 * and an agent from the command line, the agent from its own package, and a question.
 */
import { randomBytes } from 'node:crypto'
import path from 'node:path'
import { runTool } from '../../ops/python/run-tool.ts'
import { freePort } from '../../ops/system/free-port.ts'
import { ManagedChild } from '../testbed/managed-child.ts'

/** Files of commands of installed packages, run with this Node. */
export interface InstalledPackages {
  switchyard: string
  gpu_agent: string
  /** Where data directories are made. */
  folder: string
}

export interface ServingSystem {
  url: string
  api_key: string
  admin_key: string
  model: string
  /** A command of `switchyard` with the operator's key: what it printed. Throws with its words. */
  cli: (...args: string[]) => Promise<string>
  stop: () => Promise<void>
}

const MODEL = 'emulated-8b'
const COMMAND_TIMEOUT_MS = 60_000
const END_GRACE_MS = 60_000
const READY_TIMEOUT_MS = 60_000
const POLL_MS = 100

const secret = (): string => randomBytes(32).toString('base64url')

/** Resolves once an engine is ready for calls. */
export async function operatorPath({ switchyard, gpu_agent, folder }: InstalledPackages): Promise<ServingSystem> {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const admin_key = secret()
  const children: ManagedChild[] = []
  const stop = async (): Promise<void> => {
    for (const child of children.toReversed()) await child.end('SIGTERM', END_GRACE_MS)
  }
  const start = async (name: string, file: string, args: string[], env: Record<string, string>): Promise<void> => {
    const child = new ManagedChild({ name, args: [file, ...args], env, cwd: folder })
    children.push(child)
    await child.start()
  }
  const cli = async (...args: string[]): Promise<string> => {
    const env = { ...process.env, SWITCHYARD_URL: url, SWITCHYARD_ADMIN_KEY: admin_key }
    const ended = await runTool([process.execPath, switchyard, ...args], {
      ...{ timeout_ms: COMMAND_TIMEOUT_MS, cwd: folder, env },
    })
    if (ended.status === 'done') return ended.output
    throw new Error(`switchyard ${args.join(' ')}: ${'reason' in ended ? ended.reason : 'there is no Node'}`)
  }
  try {
    const production = ['up', '--production', '--port', `${port}`, '--data-dir', path.join(folder, 'control')]
    await start('switchyard', switchyard, production, {
      ...{ KEY_PEPPER: secret(), TICKET_SECRET: secret(), ADMIN_KEY: admin_key },
    })
    await until('the control plane answers', async () => (await fetch(`${url}/health`)).ok)
    await cli('regions', 'create', 'home')
    await cli('models', 'create', MODEL, '--context', '8192')
    await cli('tenants', 'create', '--id', 'acme', '--name', 'Acme')
    const [api_key = ''] = (await cli('keys', 'create', 'acme', '--name', 'test')).split('\n')
    const [token = ''] = (await cli('agents', 'create', 'gpu-1', '--region', 'home')).split('\n')
    const place = ['--id', 'gpu-1', '--region', 'home', '--control-url', url, '--data-dir', path.join(folder, 'agent')]
    await start('gpu-agent', gpu_agent, [...place, '--engine', 'emulated'], { SWITCHYARD_AGENT_TOKEN: token })
    await until('the engine is ready', async () => /gpu-1-e0\s.*ready/.test(await cli('pools', 'engines')))
    return { url, api_key, admin_key, model: MODEL, cli, stop }
  } catch (error) {
    const said = children.map(({ name, output }) => `${name}:\n${output}`).join('\n')
    await stop()
    throw new Error(`${(error as Error).message}\n${said}`, { cause: error })
  }
}

async function until(what: string, is_so: () => Promise<boolean>): Promise<void> {
  const deadline_ms = performance.now() + READY_TIMEOUT_MS
  let last = ''
  while (performance.now() < deadline_ms) {
    try {
      if (await is_so()) return
    } catch (error) {
      last = `: ${(error as Error).message}`
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
  throw new Error(`not within ${READY_TIMEOUT_MS / 1000} s: ${what}${last}`)
}
