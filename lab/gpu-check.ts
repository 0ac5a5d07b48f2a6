/** `npm run gpu-check`: whether vLLM with the scheduler and the KV swap works on this machine's GPU. A Python program does the work. */
import path from 'node:path'
import { fail, readFlags } from '../cli/flags.ts'
import { runVllmTool } from './testbed/vllm-tool.ts'

const HELP = `Checks vLLM with Switchyard's scheduler and KV swap on this machine's GPU, and prints one report to send back. About ten minutes.
It needs 85 % of the GPU's memory free, 24 GB at least, and 38 GiB of the host's. Models are of random weights: nothing but vLLM is downloaded.

  npm run gpu-check -- [flags]

  --json FILE     all figures
  --parts LIST    exact, programs (both)
  --quick         fewer programs
  --any-machine   also without a GPU, which only shows that it runs
  --help

exact      the same calls in float32, undisturbed and with preempted calls swapped or computed again: all tokens must be equal
programs   chats, agents and long writers on a model of Llama-3-8B's shape with scarce KV: vLLM's own order, plas, plas with the KV swap

On a machine with vLLM but without Node, in gpu-agent/vllm:
  PYTHONPATH=src:tools python -m gpu_check --json FILE`

const TEXT = { type: 'string' } as const
const FLAG = { type: 'boolean', default: false } as const

const flags = readFlags('gpu-check', process.argv.slice(2), {
  ...{ json: TEXT, parts: TEXT, quick: FLAG, 'any-machine': FLAG },
  help: { type: 'boolean', short: 'h', default: false },
})
if (!flags.ok) fail(flags.reason)
const { values } = flags
if (values.help) {
  console.log(HELP)
  process.exit(0)
}
process.exit(
  await runVllmTool('gpu_check', [
    ...(values.json === undefined ? [] : ['--json', path.resolve(values.json)]),
    ...(values.parts === undefined ? [] : ['--parts', values.parts]),
    ...(values.quick ? ['--quick'] : []),
    ...(values['any-machine'] ? ['--any-machine'] : []),
  ]),
)
