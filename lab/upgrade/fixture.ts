/**
 * A data directory as an earlier version left it: written under load, then every process killed at once. It is kept as a
 * packed file (test/fixtures/upgrade), so that an upgrade from that version is tested without that version.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { z } from 'zod'
import { readProgram, type Tenant } from '../chaos/ledger.ts'
import { ROOT } from '../testbed/repository.ts'

export const FIXTURES_FOLDER = path.join(ROOT, 'test', 'fixtures', 'upgrade')
const MANIFEST = 'fixture.json'
/** What an operator would keep of a data directory. Logs and pid files are not part of it. */
const PACKED = ['state', 'agents', 'secrets.json', MANIFEST]

const Answer = z.looseObject({})
export const Manifest = z.object({
  commit: z.string(),
  model: z.string(),
  context_tokens: z.number(),
  region: z.string(),
  agents: z.array(z.string()),
  agent_flags: z.record(z.string(), z.union([z.string(), z.number()])),
  tenants: z.array(z.object({ tenant: z.string(), apiKey: z.string() })),
  /** Everything that was asked of the system, by tenant. */
  programs: z.array(z.object({ tenant: z.string(), program: z.string() })),
  /** Programs that were at rest before the kill, with what the API told about them then. */
  at_rest: z.array(z.object({ tenant: z.string(), program: z.string(), summary: Answer, calls: z.array(Answer) })),
})
export type Manifest = z.infer<typeof Manifest>

export function packFixture(folder: string, manifest: Manifest, file: string): void {
  writeFileSync(path.join(folder, MANIFEST), `${JSON.stringify(manifest)}\n`)
  execFileSync('tar', ['-czf', file, '--exclude=*-shm', '-C', folder, ...PACKED])
}

export function unpackFixture(file: string, folder: string): Manifest {
  execFileSync('tar', ['-xzf', file, '-C', folder])
  return Manifest.parse(JSON.parse(readFileSync(path.join(folder, MANIFEST), 'utf8')))
}

/** What the API tells of a program, as the manifest keeps it. Null: there is no such program. */
export async function askProgram(
  url: string,
  tenant: Tenant,
  program: string,
): Promise<{ summary: Record<string, unknown>; calls: Record<string, unknown>[] } | null> {
  const control = {
    fetch: (route: string, { apiKey }: { apiKey: string }) =>
      fetch(`${url}${route}`, { headers: { authorization: `Bearer ${apiKey}` } }),
  }
  const read = await readProgram(control, tenant, program)
  return read === null ? null : { summary: { ...read.summary }, calls: read.calls.map((call) => ({ ...call })) }
}
