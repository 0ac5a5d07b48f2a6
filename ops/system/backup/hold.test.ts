import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type ProcessRecord, processRecord } from '../processes.ts'
import { whileHeld } from './hold.ts'

const HOLD = path.join(import.meta.dirname, 'hold.ts')
const LONG_MS = 60_000

let folder: string
let counter: ChildProcess
let record: ProcessRecord

/** What a process that counts in a file for as long as it runs has counted. */
const counted = (): number => Number(readFileSync(path.join(folder, 'count'), 'utf8') || 0)

beforeEach(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'switchyard-hold-'))
  const file = path.join(folder, 'count')
  writeFileSync(file, '0')
  const script = `let n = 0; setInterval(() => require('fs').writeFileSync(${JSON.stringify(file)}, String(++n)), 5)`
  counter = spawn(process.execPath, ['-e', script], { stdio: 'ignore' })
  await until(() => counted() > 0)
  const found = await processRecord(counter.pid ?? 0)
  if (found === null) throw new Error('the counter has ended')
  record = found
})
afterEach(async () => {
  counter.kill('SIGKILL')
  await once(counter, 'exit')
  rmSync(folder, { recursive: true })
})

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await sleep(5)
}

async function goesOn(): Promise<void> {
  const now = counted()
  await until(() => counted() > now + 5)
}

test('the process stands still while the work is done, and goes on after it', async () => {
  const held = await whileHeld(record, async () => {
    const before = counted()
    await sleep(200)
    return counted() - before
  })
  expect(held).toMatchObject({ status: 'held', value: 0 })
  await goesOn()
})

test('work that fails lets it go', async () => {
  const failing = whileHeld(record, () => Promise.reject(new Error('no room')))
  await expect(failing).rejects.toThrow('no room')
  await goesOn()
})

test('work past the bound does not count, and the process has gone on before its end', async () => {
  const held = await whileHeld(record, goesOn, 1000)
  expect(held).toEqual({ status: 'too_long' })
})

test('the timer of a hold that is over does not end the next one', async () => {
  expect((await whileHeld(record, async () => undefined, 1000)).status).toBe('held')
  expect((await whileHeld(record, () => sleep(1500), LONG_MS)).status).toBe('held')
})

test('a process that has ended is not held', async () => {
  expect(await whileHeld({ ...record, started: 'another' }, async () => 1)).toEqual({ status: 'lost' })
})

test('it goes on when its holder is killed with kill -9', async () => {
  const script = `
    const { whileHeld } = await import(${JSON.stringify(HOLD)})
    await whileHeld(${JSON.stringify(record)}, async () => { console.log('held'); await new Promise(() => setInterval(() => {}, 1e3)) }, ${LONG_MS})`
  const holder = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(holder.stdout, 'data')
  const before = counted()
  await sleep(200)
  expect(counted()).toBe(before)
  holder.kill('SIGKILL')
  await goesOn()
})
