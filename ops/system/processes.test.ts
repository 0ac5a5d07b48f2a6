import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { endOrphans, pidFile, startGuard, writePidFile } from './guard.ts'
import { checkPort, waitForPort } from './port.ts'
import { endProcess, formatProcessRecord, isAlive, isSameProcess, processRecord, waitForEnd } from './processes.ts'
import { BACKOFF_FIRST_MS, BACKOFF_MAX_MS, backoff_ms, type ChildSpec, SupervisedChild } from './supervised-child.ts'
import { testFolder } from './test-folder.ts'

const SLEEPER = 'process.stdout.write("up"); setInterval(() => {}, 1000)'
const STUBBORN = `process.on("SIGTERM", () => {}); ${SLEEPER}`

async function started(script: string): Promise<ChildProcess & { pid: number }> {
  const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  await once(child.stdout, 'data')
  return child as ChildProcess & { pid: number }
}

async function recordOf(pid: number) {
  const record = await processRecord(pid)
  if (record === null) throw new Error(`no process ${pid}`)
  return record
}

test('a process is known by pid and start time; another with its pid is not taken for it', async () => {
  const record = await recordOf(process.pid)
  expect(await isSameProcess(record)).toBe(true)
  expect(await isSameProcess({ ...record, started: `${record.started}1` })).toBe(false)
  expect(await endProcess({ pid: process.pid, started: 'another' }, 0)).toBe(false)
})

test('no process has a pid below 1, which the system takes for groups', () => {
  expect([isAlive(0), isAlive(-1), isAlive(process.pid)]).toEqual([false, false, true])
})

test('a process that ignores being asked is ended', async () => {
  const child = await started(STUBBORN)
  const record = await recordOf(child.pid)
  expect(await waitForEnd(record, 0)).toBe(false)
  expect(await endProcess(record, 50)).toBe(true)
  expect(await isSameProcess(record)).toBe(false)
})

test('orphans are ended by their pid files; files of processes that are gone are cleared', async () => {
  const folder = testFolder()
  const child = await started(SLEEPER)
  await writePidFile(folder, 'left', child.pid)
  writeFileSync(pidFile(folder, 'gone'), formatProcessRecord({ pid: child.pid, started: 'another' }))
  expect(await endOrphans(folder, 1000)).toEqual(['left'])
  expect(readdirSync(folder)).toEqual([])
  expect(await endOrphans(path.join(folder, 'none'), 0)).toEqual([])
})

test('the guard ends what is guarded when its starter is killed', async () => {
  const folder = testFolder()
  const child = await started(SLEEPER)
  const record = await recordOf(child.pid)
  await writePidFile(folder, 'child', child.pid)
  const guard = path.join(import.meta.dirname, 'guard.ts')
  const holder = await started(
    `import(${JSON.stringify(guard)}).then(({ startGuard }) => { startGuard(${JSON.stringify(folder)}, 0); ${SLEEPER} })`,
  )
  expect(await isSameProcess(record)).toBe(true)
  holder.kill('SIGKILL')
  expect(await waitForEnd(record, 10_000)).toBe(true)
})

test('a guard that was released ends nothing', async () => {
  const folder = testFolder()
  const child = await started(SLEEPER)
  await writePidFile(folder, 'child', child.pid)
  const guard = startGuard(folder, 0)
  guard.release()
  await guard.ended
  expect(await isSameProcess(await recordOf(child.pid))).toBe(true)
})

test('a taken port is refused with the flag that changes it, and is free again once it is', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  expect(await checkPort(address.port)).toEqual({
    ok: false,
    reason: `Port ${address.port} is taken by another program; choose another with --port`,
  })
  expect((await waitForPort(address.port, 0)).ok).toBe(false)
  const waiting = waitForPort(address.port, 10_000)
  server.close()
  expect(await waiting).toEqual({ ok: true })
})

function childSpec(folder: string, script: string, overrides: Partial<ChildSpec> = {}): ChildSpec {
  return {
    name: 'child',
    args: ['-e', script],
    env: { SWITCHYARD_TEST_VARIABLE: 'set' },
    logFile: path.join(folder, 'child.log'),
    runFolder: path.join(folder, 'run'),
    ready_timeout_ms: 20_000,
    onEvent: () => undefined,
    onDeath: () => undefined,
    ...overrides,
  }
}

const READY = 'console.log(JSON.stringify({event:"ready", value: process.env.SWITCHYARD_TEST_VARIABLE}));'

test('a child that dies is started again, and its pid file follows', async () => {
  const folder = testFolder()
  const pids: number[] = []
  const values: unknown[] = []
  let again = () => {}
  const restarted = new Promise<void>((resolve) => {
    again = resolve
  })
  const deaths: string[] = []
  const child = new SupervisedChild(
    childSpec(folder, `${READY} setInterval(() => {}, 1000)`, {
      onEvent: (event, pid) => {
        pids.push(pid)
        values.push(event.value)
        if (pids.length === 2) again()
      },
      onDeath: (what) => deaths.push(what),
    }),
  )
  await child.start()
  process.kill(pids[0] as number, 'SIGKILL')
  await restarted
  expect(deaths).toEqual(['was ended by SIGKILL'])
  expect(values).toEqual(['set', 'set'])
  expect(pids[1]).not.toBe(pids[0])
  const record = await recordOf(pids[1] as number)
  await child.stop(10_000)
  expect(await isSameProcess(record)).toBe(false)
  expect(existsSync(pidFile(path.join(folder, 'run'), 'child'))).toBe(false)
})

test('a child that says that its configuration is wrong is not started again', async () => {
  const died = Promise.withResolvers<[string, number | null]>()
  const child = new SupervisedChild(
    childSpec(testFolder(), `${READY} setTimeout(() => process.exit(78), 10)`, {
      onDeath: (...death) => died.resolve(death),
    }),
  )
  await child.start()
  expect(await died.promise).toEqual(['exited with 78', null])
  await child.stop(0)
})

test('a child that dies before it was ready is not started again; its log says why', async () => {
  const folder = testFolder()
  const child = new SupervisedChild(childSpec(folder, 'console.error("no such model"); process.exit(7)'))
  await expect(child.start()).rejects.toThrow(/child exited with 7.*no such model/s)
  expect(readFileSync(path.join(folder, 'child.log'), 'utf8').match(/starts$/gm)).toHaveLength(1)
  await child.stop(0)
})

test('a child that never says that it is ready is an error', async () => {
  const child = new SupervisedChild(childSpec(testFolder(), 'setInterval(() => {}, 1000)', { ready_timeout_ms: 50 }))
  await expect(child.start()).rejects.toThrow(/not ready after 0.05 s/)
  await child.stop(0)
})

test('a child that is stopped while it starts ends the start', async () => {
  const child = new SupervisedChild(childSpec(testFolder(), 'setInterval(() => {}, 1000)'))
  const start = expect(child.start()).rejects.toThrow(/ended by/)
  await child.stop(10_000)
  await start
})

test('the delay between restarts doubles up to its bound', () => {
  expect([0, 1, 2].map(backoff_ms)).toEqual([BACKOFF_FIRST_MS, BACKOFF_FIRST_MS * 2, BACKOFF_FIRST_MS * 4])
  expect(backoff_ms(1000)).toBe(BACKOFF_MAX_MS)
})
