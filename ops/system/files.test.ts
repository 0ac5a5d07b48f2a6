import { chmodSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync, writeSync } from 'node:fs'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { writeFileAtomic } from './atomic-file.ts'
import { dataDir } from './data-dir.ts'
import { type DevJson, readDevJson, writeDevJson } from './dev-json.ts'
import { LINE_CHARS_MAX, lineReader, parseEvent } from './line-reader.ts'
import { LogFile, logTail } from './log-file.ts'
import { loadSecrets } from './secrets.ts'
import { testFolder } from './test-folder.ts'

const SYSTEM: DevJson = {
  url: 'http://127.0.0.1:8787',
  apiKey: 'sk-sy-x',
  adminKey: 'sy-admin-x',
  pid: 10,
  controlPlanePid: 11,
  policy: 'plas',
  model: 'm',
  engine: 'embedded',
  agents: [{ id: 'us-east-1', region: 'us-east', url: 'http://127.0.0.1:1', pid: 12 }],
}

function modeOf(file: string): number {
  return statSync(file).mode & 0o777
}

test('dev.json is readable by its owner alone, under every umask, and comes back as it was written', async () => {
  const folder = testFolder()
  const { devJson } = dataDir(folder)
  const before = process.umask(0)
  onTestFinished(() => void process.umask(before))
  await writeDevJson(devJson, SYSTEM)
  expect(modeOf(devJson)).toBe(0o600)
  expect(await readDevJson(devJson)).toEqual(SYSTEM)
  chmodSync(devJson, 0o644)
  await writeDevJson(devJson, SYSTEM)
  expect(modeOf(devJson)).toBe(0o600)
  expect(readdirSync(folder)).toEqual(['dev.json'])
})

test('a missing dev.json is null and a wrong one is an error that names it', async () => {
  const { devJson } = dataDir(testFolder())
  expect(await readDevJson(devJson)).toBeNull()
  writeFileSync(devJson, '{"url": 1}')
  await expect(readDevJson(devJson)).rejects.toThrow(devJson)
})

test('a file that cannot be written leaves no part of itself behind', async () => {
  const folder = testFolder()
  await expect(writeFileAtomic(path.join(folder, 'no', 'such', 'folder'), 'x')).rejects.toThrow(/ENOENT/)
  expect(readdirSync(folder)).toEqual([])
})

test('secrets are made once, for their owner alone, and an agent seen later gets a token beside the old ones', async () => {
  const file = path.join(testFolder(), 'deep', 'secrets.json')
  const first = await loadSecrets(file, ['a'])
  expect(modeOf(file)).toBe(0o600)
  expect(first.apiKey).toMatch(/^sk-sy-[0-9A-Za-z]{48}$/)
  expect(first.adminKey).toMatch(/^sy-admin-[0-9A-Za-z]{40}$/)
  expect(first.agentTokens.a).toMatch(/^sya-[0-9A-Za-z]{48}$/)
  const second = await loadSecrets(file, ['a', 'b'])
  expect(second).toEqual({ ...first, agentTokens: { ...first.agentTokens, b: second.agentTokens.b } })
  expect(second.agentTokens.b).not.toBe(first.agentTokens.a)
  expect(await loadSecrets(file, ['b'])).toEqual(second)
})

test('damaged secrets are an error that says how to go on, never replaced', async () => {
  const file = path.join(testFolder(), 'secrets.json')
  writeFileSync(file, '{"apiKey": "sk-')
  await expect(loadSecrets(file, [])).rejects.toThrow(/npm run reset/)
  expect(readFileSync(file, 'utf8')).toBe('{"apiKey": "sk-')
})

test('a log may reach its bound; the line after it starts a new file and one older generation is kept', async () => {
  const folder = testFolder()
  const file = path.join(folder, 'logs', 'a.log')
  const log = new LogFile(file, 10)
  log.write('12345')
  log.write('67890')
  expect(readFileSync(file, 'utf8')).toBe('1234567890')
  log.write('x')
  expect(readFileSync(file, 'utf8')).toBe('x')
  expect(readFileSync(`${file}.1`, 'utf8')).toBe('1234567890')
  log.close()
  const again = new LogFile(file, 10)
  again.write('y'.repeat(10))
  again.close()
  expect(readFileSync(`${file}.1`, 'utf8')).toBe('x')
})

test('the tail of a log is its last lines; of no log, nothing', async () => {
  const file = path.join(testFolder(), 'a.log')
  writeFileSync(file, `${'long line\n'.repeat(5000)}two\nthree\n`)
  expect(await logTail(file, 2)).toBe('two\nthree')
  expect(await logTail(`${file}.none`, 2)).toBe('')
})

test('lines come out whole however the chunks fall, and one beyond the bound in pieces', () => {
  const lines: string[] = []
  const read = lineReader((line) => lines.push(line))
  read('{"event":"re')
  read('ady"}\nnext\n')
  expect(lines).toEqual(['{"event":"ready"}', 'next'])
  read('x'.repeat(LINE_CHARS_MAX))
  expect(lines).toHaveLength(2)
  read('y')
  expect(lines[2]).toHaveLength(LINE_CHARS_MAX)
})

test('only an object with an event is an event', () => {
  expect(parseEvent('{"event":"ready","url":"u"}')).toEqual({ event: 'ready', url: 'u' })
  for (const line of ['ready', '{"event":1}', '{"other":"x"}', '{broken', '[]', '']) expect(parseEvent(line)).toBeNull()
})

test('a log on a full disk never throws', () => {
  const file = path.join(testFolder(), 'child.log')
  symlinkSync('/dev/full', file)
  const log = new LogFile(file)
  log.write('lost')
  log.write('lost too')
  log.close()
})

test('a log says how much a full disk did not take, once there is room', () => {
  const file = path.join(testFolder(), 'child.log')
  let is_full = false
  const log = new LogFile(file, 1000, (fd, bytes, from) => {
    if (is_full) throw new Error('ENOSPC: no space left on device, write')
    // A disk that is nearly full takes a part.
    return writeSync(fd, bytes, from, Math.min(3, bytes.length - from))
  })
  log.write('first\n')
  is_full = true
  log.write('12345')
  log.write('67')
  is_full = false
  log.write('last\n')
  log.close()
  expect(readFileSync(file, 'utf8')).toBe(
    'first\n\n--- 7 bytes of this log were lost: ENOSPC: no space left on device, write\nlast\n',
  )
})
