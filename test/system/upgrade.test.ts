/**
 * An upgrade in place: data directories that earlier versions left when they were killed under load, and this version
 * started on them. Nothing that was acknowledged, or that an agent has measured, may be lost: programs, calls, and service
 * to the microsecond. lab/upgrade/write-fixture.ts writes the directories.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { type LedgerLease, readLedgers, readProgram, unsettled } from '../../lab/chaos/ledger.ts'
import { Testbed } from '../../lab/testbed/testbed.ts'
import { askProgram, FIXTURES_FOLDER, type Manifest, unpackFixture } from '../../lab/upgrade/fixture.ts'
import { dataDir } from '../../ops/system/data-dir.ts'
import { freePort } from '../../ops/system/free-port.ts'
import { loadSecrets } from '../../ops/system/secrets.ts'
import { eventually } from './support/system.ts'

const SETTLED_MS_MAX = 60_000
/** What versions before these fields did not count. */
const UNCOUNTED = { swapped_out_tokens: 0, swapped_in_tokens: 0, recomputed_tokens: 0, swap_s: 0 }
const us = (seconds: unknown): number => Math.round(Number(seconds) * 1e6)

let testbed: Testbed | undefined
afterEach(async () => {
  await testbed?.remove()
  testbed = undefined
})

async function unpacked(file: string): Promise<{ left: Manifest; root: string }> {
  const root = mkdtempSync(path.join(tmpdir(), 'switchyard-upgrade-'))
  const left = unpackFixture(path.join(FIXTURES_FOLDER, file), root)
  for (const name of ['logs', 'run']) mkdirSync(path.join(root, name))
  const secrets = await loadSecrets(path.join(root, 'secrets.json'), left.agents)
  testbed = new Testbed(
    { place: dataDir(root), secrets, port: await freePort() },
    {
      name: 'upgrade',
      regions: [left.region],
      agents_per_region: left.agents.length,
      model: left.model,
      flags: { 'context-tokens': left.context_tokens },
    },
  )
  return { left, root }
}

function outboxesOf(root: string, { agents }: Manifest): { agents: { id: string; outbox: string }[] } {
  return { agents: agents.map((id) => ({ id, outbox: path.join(root, 'agents', id, 'outbox.sqlite') })) }
}

/** Hashes of all files below, by path. */
function hashesIn(folder: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  const hashed = files.map(({ parentPath, name }) => {
    const file = path.join(parentPath, name)
    return [path.relative(folder, file), createHash('sha256').update(readFileSync(file)).digest('hex')] as const
  })
  return Object.fromEntries(hashed.sort())
}

/** Of a program at rest: every field of every call and lease that the earlier version told, and the sums. What it did not count is 0. */
function expectKept(before: Manifest['at_rest'][number], after: NonNullable<Awaited<ReturnType<typeof askProgram>>>) {
  const { state, ended_at: _at, end_reason: _reason, threads: _threads, ...others } = before.summary
  // A program that was running may have gone stale since. One that had ended stays as it was.
  const kept = state === 'ended' ? before.summary : others
  expect(after.summary, before.program).toMatchObject({ ...UNCOUNTED, ...kept })
  expect(after.calls, before.program).toMatchObject(before.calls.map((call) => ({ ...UNCOUNTED, ...call })))
  expect(after.calls, before.program).toHaveLength(before.calls.length)
}

/** The engines' ledgers as they were at the kill, against what the API tells. */
async function expectConserved(testbed: Testbed, left: Manifest, ledgers: readonly LedgerLease[]): Promise<void> {
  for (const { tenant, program } of left.programs) {
    const { apiKey } = left.tenants.find((one) => one.tenant === tenant) ?? { apiKey: '' }
    const own = ledgers.filter((lease) => lease.tenant === tenant && lease.program === program)
    const read = await readProgram(testbed, { tenant, apiKey }, program)
    const leases = new Map(read?.calls.flatMap((call) => call.leases).map((lease) => [lease.id, lease]))
    for (const { lease, wall_us, modelled_us } of own) {
      const told = leases.get(lease)
      const told_us = [us(told?.service_wall_s), us(told?.service_modelled_s)]
      expect(told_us, `lease ${lease} of ${program}`).toEqual([wall_us, modelled_us])
    }
    const sum = (of: (lease: LedgerLease) => number) => own.reduce((total, lease) => total + of(lease), 0)
    const sums = [us(read?.summary.service_wall_s), us(read?.summary.service_modelled_s)]
    expect(sums, program).toEqual([sum((one) => one.wall_us), sum((one) => one.modelled_us)])
  }
}

const fixtures = readdirSync(FIXTURES_FOLDER).filter((name) => name.endsWith('.tar.gz'))

describe.each(fixtures)('the data directory of %s', (file) => {
  it('is copied, upgraded, and loses nothing', async () => {
    const { left, root } = await unpacked(file)
    const state = hashesIn(path.join(root, 'state'))
    const ledgers = readLedgers(outboxesOf(root, left))
    const before = unsettled(outboxesOf(root, left))
    expect(before.open_leases, 'killed under load').toBeGreaterThan(0)
    expect(before.unacknowledged, 'killed under load').toBeGreaterThan(0)
    const upgraded = testbed as Testbed
    await upgraded.startControlPlane()
    const [backup = ''] = readdirSync(path.join(root, 'backups'))
    expect(hashesIn(path.join(root, 'backups', backup))).toEqual(state)

    const agents = left.agents.map((id) => upgraded.agent({ id, region: left.region, flags: left.agent_flags }))
    await Promise.all(agents.map((agent) => agent.start()))
    await eventually(
      'every lease is settled and acknowledged',
      () => {
        const { open_leases, unacknowledged } = unsettled(outboxesOf(root, left))
        return open_leases + unacknowledged === 0 || undefined
      },
      SETTLED_MS_MAX,
    )
    await expectConserved(upgraded, left, ledgers)
    for (const program of left.at_rest) {
      const tenant = left.tenants.find((one) => one.tenant === program.tenant) ?? { tenant: '', apiKey: '' }
      const after = await askProgram(upgraded.url, tenant, program.program)
      expect(after, program.program).not.toBeNull()
      if (after !== null) expectKept(program, after)
    }
    const answer = await upgraded.fetch('/v1/chat/completions', {
      method: 'POST',
      headers: { 'x-program-id': 'killed-0' },
      body: JSON.stringify({ model: left.model, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 4 }),
    })
    expect(answer.status, await answer.text()).toBe(200)
  })

  it('once a later version has changed it, is refused with the copy that can be used', async () => {
    const { left, root } = await unpacked(file)
    const format = path.join(root, 'state', 'format.json')
    await testbed?.startControlPlane()
    await testbed?.endControlPlane('SIGTERM')
    const known = JSON.parse(readFileSync(format, 'utf8')) as Record<string, string[]>
    writeFileSync(format, JSON.stringify({ ...known, d1: [...(known.d1 ?? []), '9999_later.sql'] }))
    const [backup = ''] = readdirSync(path.join(root, 'backups'))
    const before = hashesIn(path.join(root, 'state'))
    const refusal = await testbed?.startControlPlane().then(
      () => '',
      (error: Error) => error.message,
    )
    expect(refusal).toContain('written by a later version of Switchyard (d1/9999_later.sql)')
    expect(refusal).toContain(`cp -a ${path.join(root, 'backups', backup)} ${path.join(root, 'state')}`)
    expect(hashesIn(path.join(root, 'state'))).toEqual(before)
    expect(existsSync(path.join(root, 'backups', backup, 'd1'))).toBe(true)

    // The rollback of docs/upgrade.md: the commands as they are printed, and then a start.
    const commands = /mv \S+ \S+ && cp -a \S+ [^\s"]+/.exec(refusal ?? '')?.[0] ?? ''
    execFileSync('sh', ['-c', commands])
    await testbed?.endControlPlane('SIGTERM')
    const rolled_back = testbed as Testbed
    await rolled_back.startControlPlane()
    const [program] = left.at_rest
    const tenant = left.tenants.find((one) => one.tenant === program?.tenant)
    if (program === undefined || tenant === undefined) throw new Error('the fixture has a program at rest')
    const after = await askProgram(rolled_back.url, tenant, program.program)
    expect(after).not.toBeNull()
    if (after !== null) expectKept(program, after)
    expect(existsSync(path.join(root, 'state-later', 'd1'))).toBe(true)
  })
})
