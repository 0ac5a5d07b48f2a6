import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { networkService } from './network-service.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'switchyard-network-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

const certificate = (text: string): string => `-----BEGIN CERTIFICATE-----\n${text}\n-----END CERTIFICATE-----`

test('certificates of a file are trusted beside those of browsers', () => {
  const file = path.join(folder, 'extra.pem')
  writeFileSync(file, `# ours\n${certificate('one')}\n\n${certificate('two')}\n`)
  const { tlsOptions } = networkService(file)
  expect(tlsOptions).toEqual({ trustBrowserCas: true, trustedCertificates: [certificate('one'), certificate('two')] })
})

test('no file, or one that is missing or holds none, adds nothing', () => {
  const empty = path.join(folder, 'empty.pem')
  writeFileSync(empty, '')
  for (const file of [undefined, '', path.join(folder, 'missing.pem'), empty])
    expect(networkService(file).tlsOptions.trustedCertificates).toEqual([])
})
