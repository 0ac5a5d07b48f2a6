import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { groupMembers, startOf } from '../../gpu-agent/src/fronts/vllm/process/process-group.ts'
import { writeState } from '../../gpu-agent/src/fronts/vllm/process/vllm-state.ts'
import { dataDir } from './data-dir.ts'
import { endLeftVllms } from './left-vllms.ts'
import { testFolder } from './test-folder.ts'

const SHARED_MEMORY = '/dev/shm'

/** A process with a child of its own in one group, as a vLLM is, and what its agent has written of it. */
function leftBy(place: ReturnType<typeof dataDir>, agent: string, started?: string) {
  const child = spawn('/bin/sh', ['-c', 'sleep 600 & sleep 600'], { detached: true, stdio: 'ignore' })
  const pid = child.pid ?? 0
  onTestFinished(() => {
    if (groupMembers(pid).length > 0) process.kill(-pid, 'SIGKILL')
    rmSync(path.join(SHARED_MEMORY, `switchyard-test-${pid}`), { force: true })
  })
  const folder = path.join(place.agent(agent), 'vllm', 'e0')
  mkdirSync(folder, { recursive: true })
  const known = { started: started ?? startOf(pid) ?? '', socket: path.join(folder, 'engine.sock'), api_key: 'k' }
  const shared_memory = existsSync(SHARED_MEMORY) ? [path.join(SHARED_MEMORY, `switchyard-test-${pid}`)] : []
  for (const file of shared_memory) writeFileSync(file, '')
  writeState(folder, { v: 1, pid, ...known, port: 1, fingerprint: 'f', scheduler: {}, shared_memory, started_at_ms: 0 })
  return { pid, folder, shared_memory }
}

test('a vLLM whose agent was killed is ended with all its processes; another process under its pid is not', async () => {
  const place = dataDir(testFolder())
  const left = leftBy(place, 'us-east-1')
  const other = leftBy(place, 'eu-west-1', 'another boot:1')
  expect(groupMembers(left.pid).length).toBeGreaterThan(0)
  await endLeftVllms(place)
  expect(groupMembers(left.pid)).toEqual([])
  expect(existsSync(path.join(left.folder, 'state.json'))).toBe(false)
  expect(left.shared_memory.filter((file) => existsSync(file))).toEqual([])
  expect(groupMembers(other.pid).length).toBeGreaterThan(0)
})

test('where no agent has run there is nothing to end', async () => {
  await endLeftVllms(dataDir(testFolder()))
})
