import { chmod, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { MiniflareOptions } from 'miniflare'
import { afterEach, expect, test, vi } from 'vitest'
import { testFolder } from '../system/test-folder.ts'
import { readyMiniflare } from './ready-miniflare.ts'

const OPTIONS: MiniflareOptions = {
  cf: false,
  telemetry: { enabled: false },
  enableDevRegistry: false,
  workers: [
    {
      config: {
        name: 'it',
        compatibilityDate: '2026-01-01',
        manifest: {
          mainModule: 'it.js',
          modules: { 'it.js': { type: 'esm', contents: 'export default { fetch: () => new Response("served") }' } },
        },
      },
    },
  ],
}

afterEach(() => vi.unstubAllEnvs())

async function executable(text: string): Promise<string> {
  const file = path.join(testFolder(), 'workerd')
  await writeFile(file, text)
  await chmod(file, 0o755)
  return file
}

test('an inherited path into a folder that is gone is not used', async () => {
  vi.stubEnv('MINIFLARE_WORKERD_PATH', '/gone/launch-workerd')
  const miniflare = await readyMiniflare(OPTIONS)
  try {
    expect(await (await miniflare.dispatchFetch('http://it/')).text()).toBe('served')
    expect(process.env.MINIFLARE_WORKERD_PATH).toBe('/gone/launch-workerd')
  } finally {
    await miniflare.dispose()
  }
})

test.each([
  ['garbage is first collected early', undefined, '--initial-old-space-size=8'],
  ["an operator's flags stand", '--max-old-space-size=512', '--max-old-space-size=512'],
])('%s', async (_, given, used) => {
  vi.stubEnv('MINIFLARE_WORKERD_V8_FLAGS', given)
  const miniflare = await readyMiniflare(OPTIONS)
  try {
    expect(await (await miniflare.dispatchFetch('http://it/')).text()).toBe('served')
    expect(process.env.MINIFLARE_WORKERD_V8_FLAGS).toBe(used)
  } finally {
    await miniflare.dispose()
  }
})

test.each([
  ['is missing', async () => '/gone/launch-workerd', /^workerd cannot be started: \/gone\/launch-workerd .*ENOENT/],
  ['may not be executed', async () => import.meta.filename, /^workerd cannot be started: .* \(EACCES\)$/],
  ['ends at once', () => executable('#!/bin/sh\necho broken >&2\nexit 1\n'), /^workerd \(.*\) did not start: /],
])('a workerd that %s is an error with its cause', async (_, workerd, cause) => {
  await expect(readyMiniflare(OPTIONS, await workerd())).rejects.toThrow(cause)
  expect(process.env.MINIFLARE_WORKERD_PATH).toBeUndefined()
})

test('a workerd that never says that it is ready is an error after a while', async () => {
  const silent = await executable('#!/bin/sh\nexec sleep 600\n')
  await expect(readyMiniflare(OPTIONS, silent, 300)).rejects.toThrow(
    `(${silent}) did not start: it was not ready after 0.3 s`,
  )
})
