/**
 * A hosted API with rate limits on this machine, for trying `npm run up -- --url … --key-env NAME` without an account:
 *
 *   node lab/provider.ts --port 8124 --limit requests=60/min --limit tokens=200k/min
 *
 * `--help` lists what it can be told.
 */
import { parseArgs } from 'node:util'
import { fail } from '../cli/flags.ts'
import { parseLimit } from '../gpu-agent/engine/queue/limits/limit-spec.ts'
import { PROVIDER_APIS } from '../gpu-agent/src/fronts/attached/testing/provider/provider-answers.ts'
import { HEADER_STYLES } from '../gpu-agent/src/fronts/attached/testing/provider/provider-headers.ts'
import { ScriptedProvider } from '../gpu-agent/src/fronts/attached/testing/provider/scripted-provider.ts'

const HELP = `A hosted API with rate limits: /v1/models, /v1/chat/completions, /v1/messages and /v1/responses.

  node lab/provider.ts [flags]

  --port 8124             on 127.0.0.1
  --limit WHAT=N/SPAN     may be repeated: requests, input, output or tokens; in s, min, hour or day; concurrent=N
  --shape bucket          bucket: refilled evenly; window: fixed windows
  --counts reserved       reserved: prompt and max_tokens when a call comes; used: the uncached prompt, and output as it is written
  --headers openai        ${HEADER_STYLES.join(', ')}
  --api chat,messages,responses   APIs that it speaks (default: chat and messages)
  --key KEY               may be repeated; each has limits of its own (default: it asks for none)
  --model hosted          may be repeated
  --ttft-s 0.3  --words-per-s 80  --time-scale 1
  --seed 1  --refused 0  --overloaded 0  --stalls 0  --breaks 0  --without-usage 0     faults by chance
  --help`

const TEXT = { type: 'string' } as const
const MANY = { type: 'string', multiple: true } as const
const { values } = parseArgs({
  options: {
    ...{ port: { ...TEXT, default: '8124' }, limit: MANY, shape: TEXT, counts: TEXT, headers: TEXT, key: MANY },
    ...{ api: TEXT, model: MANY, 'ttft-s': TEXT, 'words-per-s': TEXT, 'time-scale': TEXT, seed: TEXT, refused: TEXT },
    ...{ overloaded: TEXT, stalls: TEXT, breaks: TEXT, 'without-usage': TEXT, help: { type: 'boolean' } },
  },
})
if (values.help) {
  console.log(HELP)
  process.exit(0)
}

const specs = (values.limit ?? []).map((text) => {
  const spec = parseLimit(text)
  if (typeof spec === 'string') fail(`--limit ${text}: ${spec}`)
  return spec
})
const limits = specs.flatMap(({ quantity, amount, window_us }) =>
  quantity === 'concurrent' || window_us === null ? [] : [{ quantity, amount, per_s: window_us / 1e6 }],
)
const concurrent = specs.find(({ quantity }) => quantity === 'concurrent')

const provider = await new ScriptedProvider({
  limits,
  concurrency: concurrent?.amount ?? null,
  shape: oneOf('--shape', values.shape, ['bucket', 'window']),
  counts: oneOf('--counts', values.counts, ['reserved', 'used']),
  headers: oneOf('--headers', values.headers, HEADER_STYLES),
  keys: values.key ?? null,
  apis: (values.api ?? 'chat,messages').split(',').map((api) => oneOf('--api', api, PROVIDER_APIS)),
  models: values.model ?? ['hosted'],
  ttft_s: number('--ttft-s', values['ttft-s'], 0.3),
  words_per_s: number('--words-per-s', values['words-per-s'], 80),
  time_scale: number('--time-scale', values['time-scale'], 1),
  seed: number('--seed', values.seed, 1),
  faults: {
    refused: number('--refused', values.refused, 0),
    overloaded: number('--overloaded', values.overloaded, 0),
    stalls: number('--stalls', values.stalls, 0),
    breaks: number('--breaks', values.breaks, 0),
    without_usage: number('--without-usage', values['without-usage'], 0),
  },
}).listen(number('--port', values.port, 8124))
console.log(JSON.stringify({ event: 'ready', url: provider.url }))

function oneOf<T extends string>(
  flag: string,
  value: string | undefined,
  choices: readonly [T, ...T[]] | readonly T[],
): T {
  const chosen = value === undefined ? choices[0] : choices.find((choice) => choice === value)
  if (chosen === undefined) fail(`${flag} must be one of ${choices.join(', ')}, not ${value}`)
  return chosen
}

function number(flag: string, value: string | undefined, otherwise: number): number {
  const found = value === undefined ? otherwise : Number(value)
  if (!Number.isFinite(found) || found < 0) fail(`${flag} must be a number of at least 0, not ${value}`)
  return found
}
