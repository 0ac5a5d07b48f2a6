/**
 * The gpu-agent on a host of its own: the workspace installs without the control plane's tools, and runs.
 */
import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, it } from 'vitest'

const exec = promisify(execFile)
const host = mkdtempSync(path.join(tmpdir(), 'switchyard-gpu-host-'))

afterAll(() => rmSync(host, { recursive: true, force: true }))

it('installs alone, without wrangler and workerd, and starts under its own Node', async () => {
  const files = ['package.json', 'package-lock.json', 'vendor', 'gpu-agent', 'src/core', 'src/protocol']
  for (const file of files) {
    cpSync(file, path.join(host, file), { recursive: true, filter: (source) => !source.includes('node_modules') })
  }
  await exec('npm', ['ci', '--workspace', 'gpu-agent', '--omit=dev', '--no-audit', '--no-fund'], { cwd: host })
  for (const tool of ['wrangler', 'workerd', 'miniflare', 'vitest']) {
    expect(existsSync(path.join(host, 'node_modules', tool)), tool).toBe(false)
  }
  const node = path.join(host, 'node_modules', '.bin', 'node')
  const { stdout } = await exec(node, ['gpu-agent/src/main.ts', '--help'], { cwd: host })
  expect(stdout).toContain('--control-url')
  const failure = exec(node, ['gpu-agent/src/main.ts', '--id', 'a', '--region', 'r'], { cwd: host })
  await expect(failure).rejects.toMatchObject({ stderr: expect.stringContaining('--control-url') })
})
