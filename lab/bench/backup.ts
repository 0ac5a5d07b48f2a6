/**
 * `npm run bench:backup`: how long `switchyard backup` takes of a large state, and for how long it holds the control plane. The
 * state is files in R2 and programs in Durable Objects and D1, made through the API, and calls go on while it is copied.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import path from 'node:path'
import * as z from 'zod'
import { flagsOrExit, wholeNumber } from '../../cli/flags.ts'
import { DevJson } from '../../ops/system/dev-json.ts'
import { freePort } from '../../ops/system/free-port.ts'
import { runCommandOrThrow } from '../testbed/run-command.ts'

const HELP = `Fills a system with state, backs it up while calls go on, and says how long that took and for how long calls were held.

  npm run bench:backup -- [flags]

  --megabytes 100   of files
  --programs 300    that have ended, of three calls each
  --json FILE
  --help`

const TEXT = { type: 'string' } as const
const values = flagsOrExit('bench:backup', HELP, {
  megabytes: { ...TEXT, default: '100' },
  programs: { ...TEXT, default: '300' },
  json: TEXT,
})
const megabytes = wholeNumber('--megabytes', values.megabytes, 1, 100_000)
const programs = wholeNumber('--programs', values.programs, 0, 100_000)

const MODEL = 'scripted'
const FILE_BYTES = 8e6
const LINE_BYTES = 1_000
const CALLS = 3
const LANES = 4
const BackedUp = z.object({ files: z.number(), bytes: z.number(), held_ms: z.number() })

const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-bench-backup-'))
const data = ['--data-dir', path.join(folder, 'data')]
const script = path.join(folder, 'answers.json')
writeFileSync(script, JSON.stringify({ answers: [{ text: 'Done.' }] }))
try {
  const up = [
    '--detach',
    '--json',
    '--engine',
    'scripted',
    '--script',
    script,
    '--model',
    MODEL,
    '--regions',
    'us-east',
  ]
  const { stdout } = await runCommandOrThrow('ops/up.ts', [...up, '--port', String(await freePort()), ...data])
  try {
    await measure(DevJson.parse(JSON.parse(stdout)))
  } finally {
    await runCommandOrThrow('ops/down.ts', data)
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}

async function measure(system: DevJson): Promise<void> {
  const ask = async (route: string, init: RequestInit): Promise<void> => {
    const headers = new Headers(init.headers)
    headers.set('authorization', `Bearer ${system.apiKey}`)
    const response = await fetch(`${system.url}${route}`, { ...init, headers })
    if (!response.ok) throw new Error(`${route}: ${response.status} ${await response.text()}`)
    await response.arrayBuffer()
  }
  const call = (program: string): Promise<void> =>
    ask('/v1/chat/completions', {
      method: 'POST',
      headers: { 'X-Program-Id': program, 'content-type': 'application/json' },
      body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'go' }] }),
    })
  for (let stored = 0; stored < megabytes * 1e6; stored += FILE_BYTES) await ask('/v1/files', form())
  const names = Array.from({ length: programs }, (_, at) => `program-${at}`)
  await Promise.all(
    Array.from({ length: LANES }, async (_, lane) => {
      for (const program of names.filter((_, at) => at % LANES === lane)) {
        for (let calls = 0; calls < CALLS; calls++) await call(program)
        await ask(`/v1/programs/${program}`, { method: 'DELETE' })
      }
    }),
  )
  let is_over = false
  const waits_ms: number[] = []
  const lanes = Array.from({ length: LANES }, async (_, lane) => {
    while (!is_over) {
      const began_ms = performance.now()
      await call(`during-${lane}`)
      waits_ms.push(performance.now() - began_ms)
    }
  })
  const began_ms = performance.now()
  const { stdout } = await runCommandOrThrow('ops/switchyard/main.ts', [
    ...['backup', path.join(folder, 'backup'), '--json', ...data],
  ])
  const took_s = (performance.now() - began_ms) / 1000
  is_over = true
  await Promise.all(lanes)
  const { files, bytes, held_ms } = BackedUp.parse(JSON.parse(stdout))
  const longest_call_ms = Math.max(...waits_ms)
  const figures = { bytes, files, took_s, held_ms, calls: waits_ms.length, longest_call_ms, load_1min: loadavg()[0] }
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(figures, null, 1)}\n`)
  console.log(`${(bytes / 1e6).toFixed(0)} MB in ${files} files, load average ${figures.load_1min?.toFixed(1)}`)
  console.log(`backup: ${took_s.toFixed(1)} s; calls and acknowledgements were held for ${held_ms} ms`)
  console.log(`meanwhile: ${waits_ms.length} calls, the longest took ${longest_call_ms.toFixed(0)} ms`)
}

/** Lines that do not compress to nothing. */
function form(): RequestInit {
  const line = (at: number): string => JSON.stringify({ at, text: `${Math.random()}`.repeat(LINE_BYTES / 20) })
  const lines = Array.from({ length: FILE_BYTES / LINE_BYTES }, (_, at) => line(at)).join('\n')
  const body = new FormData()
  body.set('purpose', 'batch')
  body.set('file', new Blob([lines]), 'lines.jsonl')
  return { method: 'POST', body }
}
