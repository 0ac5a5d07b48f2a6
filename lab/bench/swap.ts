/**
 * `npm run bench:swap`: how fast KV leaves a GPU and returns, by method. A Python script measures (gpu-agent/vllm/tools/bench_swap),
 * which also runs by itself where there is no Node. This finds a Python for it and draws what it wrote.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fail, flagsOrExit } from '../../cli/flags.ts'
import { vllmTools } from '../testbed/vllm-tool.ts'
import { swapReport } from './swap/report.ts'
import { swapPlot } from './swap/swap-plot.ts'

const HELP = `How long KV takes to leave a GPU and to come back: ours against a copy per block and layer, a batch copy, a Triton kernel to the
host, and writing through as blocks fill. Each moves the same scattered blocks and is checked bit by bit. About 5 minutes on a
GPU; it takes 64 GB of its memory (42 GB with --quick) and 18 GB of the host's. Without a GPU it moves a tiny model's KV within host memory, which
only shows that it runs.

  npm run bench:swap -- [flags]

  --json FILE       all figures
  --plot FILE.svg   a plot of them (needs --json or --from)
  --from FILE       draw figures measured before, and measure nothing
  --quick           8,192 tokens, and 16 calls of 2,048
  --models LIST     llama-3-8b, llama-3-70b-tp4, llama-3-70b-tp8
  --methods LIST    staged-triton, staged-torch, copy-per-block-and-layer, batch-copy, vllm-batch-copy, triton-to-host, write-through
  --tokens LIST     only these numbers of tokens
  --repeats N       of each measurement (7; without a GPU 1)
  --ring-mib N      device memory for staging, each way (1,024)
  --seconds N       start no measurement after so long (1,800)
  --help

On a machine with Python, torch and Triton alone, in gpu-agent/vllm:
  PYTHONPATH=src:tools python -m bench_swap --json FILE`

/** Of those that the script takes. */
const PASSED_ON = ['models', 'methods', 'tokens', 'repeats', 'ring-mib', 'seconds'] as const
const TEXT = { type: 'string' } as const

const values = flagsOrExit('bench:swap', HELP, {
  ...{ json: TEXT, plot: TEXT, from: TEXT, models: TEXT, methods: TEXT, tokens: TEXT, repeats: TEXT, seconds: TEXT },
  'ring-mib': TEXT,
  quick: { type: 'boolean', default: false },
})
const figures = values.from ?? values.json
if (values.plot !== undefined && figures === undefined) fail('--plot needs --json or --from')
if (values.from === undefined) {
  const code = await measure()
  if (code !== 0) process.exit(code)
}
if (values.plot !== undefined && figures !== undefined) {
  const report = swapReport(readFileSync(figures, 'utf8'))
  if (!report.ok) fail(`${figures} has no figures of this benchmark: ${report.reason}`)
  writeFileSync(values.plot, swapPlot(report.report))
}

async function measure(): Promise<number> {
  const args: string[] = []
  if (values.json !== undefined) args.push('--json', path.resolve(values.json))
  if (values.quick) args.push('--quick')
  for (const name of PASSED_ON) {
    const value = values[name]
    if (value !== undefined) args.push(`--${name}`, value)
  }
  return await (await vllmTools()).run('bench_swap', args)
}
