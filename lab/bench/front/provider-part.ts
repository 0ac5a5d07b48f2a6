/**
 * Agents at a provider with rate limits, through the `openai` package with its own retries, through LiteLLM's proxy, and through the
 * whole of Switchyard. The provider is scripted (gpu-agent/src/fronts/attached/testing/provider): a token bucket of requests and one
 * of tokens, counted and told as OpenAI does. Each arm has a provider of its own, and all play at once: a run is waiting, and
 * costs a processor little.
 */
import { ScriptedProvider } from '../../../gpu-agent/src/fronts/attached/testing/provider/scripted-provider.ts'
import type { Testbed } from '../../testbed/testbed.ts'
import { type AgentClient, type AgentProgram, agentPrograms, playAgents } from './agents.ts'
import { LiteLlm } from './litellm.ts'
import { type ProviderFigures, providerFigures } from './provider-figures.ts'

export const PROVIDER_MODEL = 'hosted'
const LIMITS = { requests: 60, tokens: 200_000, per_s: 60 }
const REGION = 'us-east'
const PROVIDER_KEY = 'sk-bench-provider'

export interface ProviderPart {
  programs: number
  seed: number
  policies: readonly ('fcfs' | 'plas' | 'learned')[]
  /** LiteLLM's command; null: not played. */
  litellm: string | null
}

interface Arm {
  name: string
  /** Runs `play` with a client of the arm. */
  with: (provider: ScriptedProvider, play: (client: AgentClient) => Promise<void>) => Promise<void>
}

/** `beds`: a control plane for each policy. */
export async function playProviderPart(
  part: ProviderPart,
  beds: readonly Testbed[],
  onFigures: (figures: ProviderFigures) => void,
): Promise<void> {
  const arms: Arm[] = [direct(2), direct(10)]
  if (part.litellm !== null) arms.push(proxied(part.litellm))
  for (const [index, policy] of part.policies.entries()) arms.push(switchyard(policy, beds[index] as Testbed))
  const programs = agentPrograms(part.seed, part.programs)
  await Promise.all(arms.map(async (arm) => onFigures(await playArm(arm, programs, part.seed))))
}

async function playArm({ name, with: open }: Arm, programs: readonly AgentProgram[], seed: number) {
  const provider = await new ScriptedProvider({
    ...{ models: [PROVIDER_MODEL], keys: [PROVIDER_KEY], shape: 'bucket', counts: 'reserved', headers: 'openai' },
    limits: (['requests', 'tokens'] as const).map((quantity) => ({
      ...{ quantity, amount: LIMITS[quantity], per_s: LIMITS.per_s },
    })),
  }).listen()
  let figures: ProviderFigures | null = null
  try {
    await open(provider, async (client) => {
      const before = provider.calls.length
      const runs = await playAgents(programs, client)
      figures = providerFigures({ arm: name, seed }, runs, provider.calls.slice(before), LIMITS)
      process.stderr.write(`${name}, seed ${seed}: ${figures.finished} of ${figures.programs} programs\n`)
    })
  } finally {
    await provider.close()
  }
  if (figures === null) throw new Error(`${name} was not played`)
  return figures as ProviderFigures
}

function direct(retries: number): Arm {
  return {
    name: `openai, ${retries} retries`,
    with: (provider, play) => play({ url: `${provider.url}/v1`, key: PROVIDER_KEY, model: PROVIDER_MODEL, retries }),
  }
}

function proxied(command: string): Arm {
  return {
    name: 'LiteLLM, priorities',
    with: async (provider, play) => {
      const proxy = await LiteLlm.start(command, {
        ...{ url: `${provider.url}/v1`, key: PROVIDER_KEY, model: PROVIDER_MODEL },
        ...{ rpm: LIMITS.requests, tpm: LIMITS.tokens },
      })
      try {
        // The program with the fewest calls so far first.
        const fields = (priority: number): object => ({ priority })
        await play({ url: proxy.url, key: proxy.key, model: PROVIDER_MODEL, retries: 2, fields })
      } finally {
        await proxy.end()
      }
    },
  }
}

function switchyard(policy: string, bed: Testbed): Arm {
  return {
    name: `Switchyard, ${policy}`,
    with: async (provider, play) => {
      process.env.BENCH_PROVIDER_KEY = PROVIDER_KEY
      const limit = `requests=${LIMITS.requests}/min,tokens=${LIMITS.tokens}/min`
      const flags = {
        engine: 'openai',
        url: provider.url,
        'key-env': 'BENCH_PROVIDER_KEY',
        kind: 'openai',
        limit,
        policy,
      }
      const agent = bed.agent({ id: `${REGION}-1`, region: REGION, flags: { ...flags, 'context-tokens': 131_072 } })
      const key = bed.secrets.apiKey
      const programs = async (method: string, path: string, body?: object): Promise<void> => {
        const answer = await bed.fetch(`/v1/programs${path}`, {
          method,
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        })
        await answer.body?.cancel()
      }
      try {
        await agent.start()
        await play({
          ...{ url: `${bed.url}/v1`, key, model: PROVIDER_MODEL, retries: 2 },
          headers: ({ id }) => ({ 'x-program-id': id }),
          begins: ({ id, app }) => programs('POST', '', { id, app }),
          ends: ({ id }) => programs('DELETE', `/${id}`),
        })
      } finally {
        await agent.end()
      }
    },
  }
}
