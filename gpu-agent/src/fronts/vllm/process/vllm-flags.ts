/**
 * Flags of vLLM that an operator may not give in --vllm-args, because the agent sets them itself or because they would take
 * from it what it relies on: one engine behind one address, ordered by our plug-in. vLLM takes `_` for `-` in names, and
 * `--flag.key` for a key of a JSON value.
 */
const OWNED: Readonly<Record<string, string>> = {
  model: 'use --model',
  'served-model-name': 'use --model-id',
  'max-num-seqs': 'use --seats',
  'max-model-len': 'use --context-tokens',
  host: 'the agent binds vLLM to 127.0.0.1, so that it is reached only through the agent',
  port: 'the agent takes a free one',
  uds: 'the agent reaches vLLM by a port of 127.0.0.1',
  'api-key': 'the agent makes one for each start',
  'root-path': 'the agent calls vLLM without one',
  'scheduler-cls': "the agent loads Switchyard's; use --policy",
  'scheduling-policy': "Switchyard's scheduler needs priority, which the agent sets; use --policy",
  'additional-config': "Switchyard's options are given beside it, and never twice; use --policy",
  config: 'a file could set flags that the agent owns; write its flags into --vllm-args',
  headless: 'an engine without an API server cannot be served',
  grpc: 'the agent speaks HTTP',
  'api-server-count': 'the agent needs one API server for each engine',
  asc: 'the agent needs one API server for each engine',
  nnodes: 'an engine runs on one host',
}
const DATA_PARALLEL = 'data-parallel ranks are separate engines: use --engines N'

/** The name in `--name`, `--name=value` or `--name.key`, or null for a word that is no flag. */
function flagName(word: string): string | null {
  const match = /^--?([A-Za-z][^=.]*)/.exec(word)
  return match?.[1]?.replaceAll('_', '-') ?? null
}

/** The first word that the operator may not give, with why; null when all may pass. */
export function refusedVllmArg(words: readonly string[]): string | null {
  for (const word of words) {
    const name = flagName(word)
    if (name === null) continue
    const shown = word.split('=', 1)[0]
    if (/^data-parallel/.test(name) || /^-dp/.test(word)) return `${shown}: ${DATA_PARALLEL}`
    if (/^ssl-/.test(name)) return `${shown}: the agent speaks plain HTTP with vLLM on 127.0.0.1`
    const why = OWNED[name]
    if (why !== undefined) return `${shown}: ${why}`
  }
  return null
}

/** Whether one of `names` is among the words, in any way of writing it. */
export function hasVllmFlag(words: readonly string[], ...names: readonly string[]): boolean {
  return words.some((word) => names.includes(flagName(word) ?? ''))
}
