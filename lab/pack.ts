/** `npm run pack`: makes the packages that a release publishes, and says how each is published. Sends nothing anywhere. */
import { statSync } from 'node:fs'
import path from 'node:path'
import { fail, flagsOrExit } from '../cli/flags.ts'
import { withProgress } from '../cli/progress.ts'
import { NAMES } from './packages/names.ts'
import { pack } from './packages/pack.ts'

const OUT_DEFAULT = 'dist/packages'
const HELP = `Makes the packages of a release: three npm tarballs and two Python wheels. Publishes nothing.

  npm run pack -- [flags]

  --out FOLDER    where they are written (${OUT_DEFAULT})
  --only NAME     one of ${Object.values(NAMES).join(', ')}
  --help`

const { out, only } = flagsOrExit('pack', HELP, {
  out: { type: 'string', default: OUT_DEFAULT },
  only: { type: 'string' },
})
const names = Object.values(NAMES).filter((name) => only === undefined || name === only)
if (names.length === 0) fail(`--only ${only}: there is no such package. There are ${Object.values(NAMES).join(', ')}`)
const files: string[] = []
for (const name of names) files.push(await withProgress(`Packing ${name}`, () => pack(name, out)))
for (const file of files) console.log(`${file}  ${Math.ceil(statSync(file).size / 1000)} kB`)
const wheels = files.filter((file) => file.endsWith('.whl'))
console.log('\nTo publish them, with accounts of your own on both registries:')
for (const file of files.filter((name) => name.endsWith('.tgz')))
  console.log(`  npm publish --access public ./${path.relative('.', file)}`)
if (wheels.length > 0) console.log(`  twine upload ${wheels.map((file) => path.relative('.', file)).join(' ')}`)
