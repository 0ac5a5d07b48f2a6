/** `npm run gpu-check`: whether vLLM with the scheduler and the KV swap works on this machine's GPU. A Python program does the work. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { flagsOrExit } from '../cli/flags.ts'
import { StatedPrograms, toldClasses } from './gpu-check/told-classes.ts'
import { vllmTools } from './testbed/vllm-tool.ts'

const HELP = `Checks vLLM with Switchyard's scheduler and KV swap on this machine's GPU, and prints one report to send back. About a quarter of an hour.
It needs 85 % of the GPU's memory free, 24 GB at least, and 38 GiB of the host's. Models are of random weights: nothing but vLLM is downloaded.

  npm run gpu-check -- [flags]

  --json FILE     all figures, written after each play
  --parts LIST    exact, programs, tools (all)
  --engines LIST  which vLLMs play programs and tools: vLLM, swap, plug-in (all)
  --logs FOLDER   for vLLM's logs
  --quick         fewer programs
  --any-machine   also without a GPU, which only shows that it runs
  --help

exact      the same calls in float32, undisturbed and with preempted calls swapped or computed again, and with contexts swapped or pinned
           while tools run: all tokens must be equal
programs   chats, agents and long writers on a model of Llama-3-8B's shape with scarce KV: vLLM's own order, plas with and without the
           KV swap, learned, fcfs-program, atlas
tools      agents whose tools take seconds: these, and the policies that decide what becomes of a context while its tool runs

On a machine with vLLM but without Node, in gpu-agent/vllm. The policies that learn then know nothing of the programs' kinds:
  PYTHONPATH=src:tools python -m gpu_check --json FILE`

const TEXT = { type: 'string' } as const
const FLAG = { type: 'boolean', default: false } as const

const values = flagsOrExit('gpu-check', HELP, {
  ...{ json: TEXT, parts: TEXT, engines: TEXT, logs: TEXT, quick: FLAG, 'any-machine': FLAG },
})
const tools = await vllmTools()
const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-gpu-check-'))
const classes = path.join(folder, 'classes.json')
const stated = StatedPrograms.parse(JSON.parse(await tools.printed('gpu_check.stated')))
writeFileSync(classes, JSON.stringify(toldClasses(stated)))
const code = await tools.run('gpu_check', [
  ...['--classes', classes],
  ...(values.json === undefined ? [] : ['--json', path.resolve(values.json)]),
  ...(values.parts === undefined ? [] : ['--parts', values.parts]),
  ...(values.engines === undefined ? [] : ['--engines', values.engines]),
  ...(values.logs === undefined ? [] : ['--logs', path.resolve(values.logs)]),
  ...(values.quick ? ['--quick'] : []),
  ...(values['any-machine'] ? ['--any-machine'] : []),
])
rmSync(folder, { recursive: true })
process.exit(code)
