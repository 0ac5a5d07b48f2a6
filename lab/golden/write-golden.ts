/** `node lab/golden/write-golden.ts`: writes the golden traces anew, from the engine as it is. */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { HANDLING_FILE, handlingLines } from './handling-cases.ts'
import { HOLD_FILE, holdLines } from './hold-cases.ts'
import { learnedPriors, PRIORS_FILE } from './learned-priors.ts'
import { recordTrace } from './record-trace.ts'
import { SCENARIOS } from './scenarios.ts'
import { WASTE_FILE, wasteLines } from './waste-cases.ts'

const vllm = path.join(import.meta.dirname, '../../gpu-agent/vllm')
const golden = path.join(vllm, 'golden')
const folder = path.join(golden, 'traces')
if (process.argv.length > 2) {
  console.log(
    'usage: node lab/golden/write-golden.ts\nWrites one trace per scenario of scenarios.ts into golden/traces, the\nchoices of handling into golden/handling, and the tables of the prior of learned into the package.',
  )
  process.exit(process.argv[2] === '--help' ? 0 : 2)
}
mkdirSync(folder, { recursive: true })
for (const file of readdirSync(folder)) if (file.endsWith('.jsonl')) rmSync(path.join(folder, file))
for (const scenario of SCENARIOS) {
  const trace = recordTrace(scenario)
  writeFileSync(path.join(folder, `${scenario.name}.jsonl`), trace)
  console.log(`${scenario.name}: ${trace.split('\n').length - 1} lines`)
}
const handling = path.join(golden, 'handling')
mkdirSync(handling, { recursive: true })
writeFileSync(path.join(handling, HANDLING_FILE), handlingLines())
writeFileSync(path.join(handling, WASTE_FILE), wasteLines())
writeFileSync(path.join(handling, HOLD_FILE), holdLines())
writeFileSync(path.join(vllm, PRIORS_FILE), learnedPriors())
