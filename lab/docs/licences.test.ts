/** Each package that can be installed by itself has the repository's licence, in its manifest and as a file. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../testbed/repository.ts'

const read = (file: string): string => readFileSync(path.join(ROOT, file), 'utf8')
const LICENCE = 'Apache-2.0'

test('LICENSE is the whole Apache License', () => {
  expect(read('LICENSE')).toMatch(/^\s+Apache License\n\s+Version 2\.0, January 2004\n/)
  expect(read('LICENSE')).toContain('END OF TERMS AND CONDITIONS')
})

test.each(['package.json', 'gpu-agent/package.json', 'clients/typescript/package.json'])('%s names it', (manifest) => {
  expect(JSON.parse(read(manifest))).toMatchObject({ license: LICENCE })
  expect(read(path.join(path.dirname(manifest), 'LICENSE'))).toBe(read('LICENSE'))
})

test.each(['clients/python/pyproject.toml', 'gpu-agent/vllm/pyproject.toml'])('%s names it', (manifest) => {
  expect(read(manifest)).toContain(`license = "${LICENCE}"\nlicense-files = ["LICENSE"]\n`)
  expect(read(path.join(path.dirname(manifest), 'LICENSE'))).toBe(read('LICENSE'))
})
