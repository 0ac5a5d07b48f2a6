/** `npm run test:packages`: packs every package, installs each with npm or pip into an empty folder and does its main job from there. */
import { spawn } from 'node:child_process'
import { flagsOrExit } from '../cli/flags.ts'
import { findOrFetchModel } from '../ops/model/find-or-fetch.ts'

const HELP = `Packs every package, installs each with npm or pip into an empty folder, and does its main job from there.
It asks the npm and Python registries for what the packages depend on. Before a release; npm test has a short form of it.

  npm run test:packages`
flagsOrExit('test:packages', HELP, {})
const { path: model } = await findOrFetchModel({})
const env = { ...process.env, SWITCHYARD_MODEL: model }
const child = spawn('vitest', ['run', '--project', 'packages'], { stdio: 'inherit', env })
child.on('error', (error) => {
  throw error
})
child.on('close', (code) => {
  process.exitCode = code ?? 1
})
