/** A running Switchyard for the clients: `npm run up` with the scripted engine, in a folder of its own. */
import path from 'node:path'
import { AdminClient } from '../../ops/switchyard/client.ts'
import { dataDir } from '../../ops/system/data-dir.ts'
import { type DevJson, readDevJson } from '../../ops/system/dev-json.ts'
import { freePort } from '../../ops/system/free-port.ts'
import { runCommand, runCommandOrThrow } from '../testbed/run-command.ts'
import { workspaceIn } from './run-client.ts'
import { writeScript } from './script-file.ts'

const REGION = 'us-east'

export interface ServedSystem {
  url: string
  model: string
  /** A tenant for one client, so that its programs are its own; the key of it. */
  tenantKey(name: string): Promise<string>
  stop(): Promise<void>
}

export async function startSystem(folder: string): Promise<ServedSystem> {
  const script = path.join(folder, 'answers.json')
  await writeScript(script, workspaceIn(folder))
  const data_folder = path.join(folder, 'switchyard')
  const port = String(await freePort())
  const flags = ['--engine', 'scripted', '--script', script, '--regions', REGION, '--port', port, '--detach']
  await runCommandOrThrow('ops/up.ts', [...flags, '--data-dir', data_folder])
  const stop = async (): Promise<void> => void (await runCommand('ops/down.ts', ['--data-dir', data_folder]))
  const system = await readDevJson(dataDir(data_folder).devJson)
  if (system === null) throw new Error(`${data_folder} does not describe a running system`)
  return { url: system.url, model: system.model, tenantKey: (name) => newTenant(system, name), stop }
}

async function newTenant({ url, adminKey }: DevJson, name: string): Promise<string> {
  const admin = new AdminClient(url, adminKey)
  const tenant = await admin.one('POST', '/tenants', { name })
  const { key } = await admin.one('POST', `/tenants/${String(tenant.id)}/keys`, { name })
  return String(key)
}
