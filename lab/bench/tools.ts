/**
 * `npm run bench:tools`: what each policy leaves of a program's context while its tool runs, on the real model with tools that
 * really sleep. Every figure but the last column is a counter of the engine or of its calls; that one is a time, and so depends on the
 * machine.
 */
import { writeFileSync } from 'node:fs'
import { fail, flagsOrExit, wholeNumber } from '../../cli/flags.ts'
import { type Column, textTable } from '../../cli/table.ts'
import { HANDLINGS, type Handling } from '../../gpu-agent/engine/memory/handling/waste.ts'
import { ENGINE_POLICY_NAMES, isMemoryPolicy } from '../../gpu-agent/engine/order/policies/index.ts'
import { findOrFetchModel } from '../../ops/model/find-or-fetch.ts'
import { optionsFor, playTools, type Return, type ToolsPlay, type ToolsWorkload } from './tools/play-tools.ts'

const HELP = `What each policy leaves of a program's context while its tool runs, on the embedded engine with tools that really sleep.
About a minute for each policy.

  npm run bench:tools -- [flags]

  --policies LIST  (vllm-preserve,vllm-discard,infercept,lamps,plas) of ${ENGINE_POLICY_NAMES.join(', ')}
  --handling LIST  plays each policy with each of these instead of what its name has: preserve, discard, swap, and auto (the
                   least waste of the three). With one policy the order is fixed, with one handling the handling is
  --programs 6     with tools; besides them programs of one call ask for room all the time
  --tools 2        of each program
  --longest-s 30   tools sleep from 0 to this, evenly
  --slots 8        contexts that the engine can hold at once; 2 calls run
  --seed 1
  --model PATH     a GGUF (default: the shipped small model)
  --json FILE      all figures, with each decision and its three wastes
  --help`

const TEXT = { type: 'string' } as const
const values = flagsOrExit('bench:tools', HELP, {
  policies: { ...TEXT, default: 'vllm-preserve,vllm-discard,infercept,lamps,plas' },
  ...{ programs: { ...TEXT, default: '6' }, tools: { ...TEXT, default: '2' }, seed: { ...TEXT, default: '1' } },
  handling: TEXT,
  ...{ 'longest-s': { ...TEXT, default: '30' }, slots: { ...TEXT, default: '8' }, model: TEXT, json: TEXT },
})
const policies = values.policies.split(',').map((name) => {
  const found = ENGINE_POLICY_NAMES.find((one) => one === name)
  return found ?? fail(`--policies: there is no ${name}; there are ${ENGINE_POLICY_NAMES.join(', ')}`)
})
const handlings = values.handling === undefined ? [null] : values.handling.split(',').map(handlingOf)
if (values.handling !== undefined) {
  const without = policies.find((policy) => !isMemoryPolicy(policy))
  if (without !== undefined) fail(`--handling: ${without} handles no contexts; name others with --policies`)
}
const workload: ToolsWorkload = {
  ...{
    seed: wholeNumber('--seed', values.seed, 1, 1_000_000),
    programs: wholeNumber('--programs', values.programs, 1, 100),
    tools: wholeNumber('--tools', values.tools, 1, 100),
    others: 1,
    prompt_words: 150,
  },
  tool_s_max: wholeNumber('--longest-s', values['longest-s'], 1, 300),
}
const slots = wholeNumber('--slots', values.slots, 1, 64)
if (slots < 2) fail('--slots must be at least 2: two calls run at once')

const model = await findOrFetchModel(values.model === undefined ? {} : { model: values.model })
const plays: ToolsPlay[] = []
for (const [policy, handling] of policies.flatMap((one) => handlings.map((other) => [one, other] as const))) {
  process.stderr.write(`${nameOf({ policy, handling })}\n`)
  plays.push(await playTools(optionsFor(policy, model.path, slots, handling), workload))
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ workload, slots, plays }, null, 1)}\n`)
}
console.log(textTable(columns(), plays))
const [first, ...others] = plays
const same = others.every(({ answers }) => JSON.stringify(answers) === JSON.stringify(first?.answers))
console.log(same ? 'All answers are the same under every policy.' : 'ANSWERS DIFFER between policies.')
if (!same) process.exitCode = 1

function columns(): Column<ToolsPlay>[] {
  const count = (title: string, figure: (play: ToolsPlay) => number | string): Column<ToolsPlay> => ({
    title,
    cell: (play) => String(figure(play)),
    align: 'right',
  })
  return [
    { title: 'policy', cell: nameOf },
    count('returns', ({ returns }) => returns.length),
    ...HANDLINGS.map((name) => count(name, ({ tools }) => tools?.[name].decided ?? '–')),
    ...HANDLINGS.map((name) => count(`${name} cached`, ({ tools }) => (tools === null ? '–' : atHand(tools[name])))),
    count('all cached', ({ returns }) => atHand(sumOf(returns))),
    ...(['relieved', 'revised', 'prefetched'] as const).map((name) => count(name, ({ tools }) => tools?.[name] ?? '–')),
    count('in calls, s', ({ in_calls_s }) => in_calls_s.toFixed(2)),
  ]
}

function nameOf({ policy, handling }: Pick<ToolsPlay, 'policy' | 'handling'>): string {
  if (handling === null) return policy
  return `${policy}, ${handling.length === 1 ? handling[0] : 'auto'}`
}

function handlingOf(name: string): readonly Handling[] {
  if (name === 'auto') return HANDLINGS
  const found = HANDLINGS.find((one) => one === name)
  return found === undefined
    ? fail(`--handling: there is no ${name}; there are ${HANDLINGS.join(', ')}, auto`)
    : [found]
}

function sumOf(returns: readonly Return[]): { context_tokens: number; cached_tokens: number } {
  const sum = (of: 'context_tokens' | 'cached_tokens') => returns.reduce((total, one) => total + one[of], 0)
  return { context_tokens: sum('context_tokens'), cached_tokens: sum('cached_tokens') }
}

function atHand({ context_tokens, cached_tokens }: { context_tokens: number; cached_tokens: number }): string {
  return context_tokens === 0 ? '–' : `${((100 * cached_tokens) / context_tokens).toFixed(1)} %`
}
