/**
 * The bare Worker: what any relay of this shape costs on workerd before it does anything. It makes the RPCs that a call of
 * Switchyard makes (test/workerd/cost.test.ts counts those), to objects of the same sort that begin and end as its programs do:
 * one to the program's and, for each CREDITS calls, one to the pool's beside it, then a fetch whose body passes through, and one
 * to the program's that no client waits for. No key, no ticket, no state. With `x-store: 1` the last keeps one row, which is the least
 * that a relay costs whose calls survive a restart.
 */
import path from 'node:path'
import type { MiniflareOptions } from 'miniflare'
import { readFileIfAny } from '../../../ops/system/atomic-file.ts'
import { pidFile } from '../../../ops/system/guard.ts'
import { HOST } from '../../../ops/system/port.ts'
import { parseProcessRecord } from '../../../ops/system/processes.ts'
import { networkService } from '../../../ops/workerd/network-service.ts'
import { readyMiniflare } from '../../../ops/workerd/ready-miniflare.ts'
import type { WorkerConfig } from '../../../ops/workerd/worker-config.ts'
import { WORKERD_NAME, writeWorkerdLauncher } from '../../../ops/workerd/workerd-launcher.ts'

/** Calls that ask no pool, after one that did: Switchyard's programs of twenty calls ask for their first, and for a few more. */
const CREDITS = 10

const SCRIPT = `
import { DurableObject } from 'cloudflare:workers'
export class Program extends DurableObject {
  calls = 0
  async admit({ call }) { this.calls += 1; return { call, calls: this.calls } }
  async note() {}
  async keep({ call, url }) {
    const { sql } = this.ctx.storage
    if (!this.made) sql.exec('CREATE TABLE IF NOT EXISTS calls (call TEXT PRIMARY KEY, url TEXT) WITHOUT ROWID')
    this.made = true
    sql.exec('INSERT INTO calls VALUES (?, ?)', call, url)
  }
}
export class Pool extends DurableObject {
  leases = 0
  async lease({ call }) { this.leases += 1; return { call, url: this.env.ENGINE_URL } }
}
let credits = 0
let leased = null
async function lease(env, call) {
  if (credits > 0) credits -= 1
  else {
    leased = await env.POOL.getByName('pool').lease({ call })
    credits = ${CREDITS}
  }
  return leased
}
export default {
  async fetch(request, env, context) {
    const { pathname } = new URL(request.url)
    const call = crypto.randomUUID()
    const name = request.headers.get('x-program-id') ?? call
    const program = () => env.PROGRAM.getByName(name)
    const [, { url }] = await Promise.all([program().admit({ call }), lease(env, call)])
    const headers = new Headers({ 'content-type': 'application/json' })
    headers.set('authorization', request.headers.get('authorization') ?? '')
    const upstream = await env.NETWORK.fetch(url + pathname, { method: 'POST', headers, body: request.body })
    context.waitUntil(request.headers.get('x-store') === '1' ? program().keep({ call, url }) : program().note({ call }))
    return new Response(upstream.body, { status: upstream.status, headers: upstream.headers })
  },
}
`

const NAME = 'bare'
const CLASSES = { PROGRAM: 'Program', POOL: 'Pool' } as const

export interface BareWorker {
  port: number
  pid: number
  stop(): Promise<void>
}

export async function startBareWorker(
  { compatibilityDate }: WorkerConfig,
  folder: string,
  port: number,
  engineUrl: string,
): Promise<BareWorker> {
  const launcher = await writeWorkerdLauncher(folder)
  const object = { type: 'durable-object' as const }
  const options: MiniflareOptions = {
    host: HOST,
    port: 0,
    cf: false,
    telemetry: { enabled: false },
    enableDevRegistry: false,
    resourcePersistencePath: path.join(folder, 'state'),
    workers: [
      {
        config: {
          name: NAME,
          compatibilityDate,
          compatibilityFlags: [],
          manifest: { mainModule: 'worker.js', modules: { 'worker.js': { type: 'esm', contents: SCRIPT } } },
          env: {
            NETWORK: networkService(process.env.NODE_EXTRA_CA_CERTS),
            ENGINE_URL: { type: 'text', value: engineUrl },
            ...Object.fromEntries(
              Object.entries(CLASSES).map(([binding, exportName]) => [
                binding,
                { ...object, worker: NAME, exportName },
              ]),
            ),
          },
          exports: Object.fromEntries(Object.values(CLASSES).map((name) => [name, { ...object, storage: 'sqlite' }])),
        },
        dev: { unsafeDirectSockets: [{ host: HOST, port }] },
      },
    ],
  }
  const miniflare = await readyMiniflare(options, launcher)
  const workerd = parseProcessRecord(await readFileIfAny(pidFile(folder, WORKERD_NAME)))
  if (workerd === null) throw new Error('workerd left no pid')
  return { port, pid: workerd.pid, stop: () => miniflare.dispose() }
}
