/**
 * Agents at a provider with rate limits, through the `openai` package with its own retries, through LiteLLM's proxy, and through the
 * whole of Switchyard. The provider is scripted (gpu-agent/src/fronts/attached/testing/provider): a token bucket of requests and one
 * of tokens, counted and told as OpenAI does. Each arm has a provider of its own, and all play at once: a run is waiting, and
 * costs a processor little.
 *
 * A warm arm has served as many other agents of the same applications before, at a provider without limits, as a deployment has that
 * is not started for the first time. It begins when its classes know of all of them.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type ProviderOptions,
  ScriptedProvider,
} from '../../../gpu-agent/src/fronts/attached/testing/provider/scripted-provider.ts'
import type { Testbed } from '../../testbed/testbed.ts'
import { type AgentClient, type AgentProgram, agentPrograms, playAgents } from './agents.ts'
import { LiteLlm } from './litellm.ts'
import { type ProviderFigures, providerFigures } from './provider-figures.ts'

export const PROVIDER_MODEL = 'hosted'
const LIMITS = { requests: 60, tokens: 200_000, per_s: 60 }
const REGION = 'us-east'
const PROVIDER_KEY = 'sk-bench-provider'
/** Of the agents that a warm arm served before: another draw for each seed. */
const BEFORE_SEED = 1000
const LOOK_MS = 1000
/** Classes tell what they know about once a minute. */
const KNOWN_MS_MAX = 180_000

export interface SwitchyardArm {
  policy: 'fcfs' | 'plas' | 'learned'
  warm: boolean
}

export interface ProviderPart {
  programs: number
  seed: number
  switchyards: readonly SwitchyardArm[]
  /** LiteLLM's command; null: not played. */
  litellm: string | null
}

interface Arm {
  name: string
  /** Runs `play` with a client of the arm. */
  with: (provider: ScriptedProvider, play: (client: AgentClient) => Promise<void>) => Promise<void>
}

/** `beds`: a control plane for each arm of Switchyard. */
export async function playProviderPart(
  part: ProviderPart,
  beds: readonly Testbed[],
  onFigures: (figures: ProviderFigures) => void,
): Promise<void> {
  const arms: Arm[] = [direct(2), direct(10)]
  if (part.litellm !== null) arms.push(proxied(part.litellm))
  for (const [index, { policy, warm }] of part.switchyards.entries()) {
    const before = warm ? agentPrograms(part.seed + BEFORE_SEED, part.programs) : []
    arms.push(switchyard(policy, beds[index] as Testbed, before))
  }
  const programs = agentPrograms(part.seed, part.programs)
  await Promise.all(arms.map(async (arm) => onFigures(await playArm(arm, programs, part.seed))))
}

async function playArm({ name, with: open }: Arm, programs: readonly AgentProgram[], seed: number) {
  const provider = await newProvider(
    (['requests', 'tokens'] as const).map((quantity) => ({ quantity, amount: LIMITS[quantity], per_s: LIMITS.per_s })),
  )
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

function newProvider(limits: ProviderOptions['limits']): Promise<ScriptedProvider> {
  const told = { shape: 'bucket', counts: 'reserved', headers: 'openai' } as const
  return new ScriptedProvider({ models: [PROVIDER_MODEL], keys: [PROVIDER_KEY], limits, ...told }).listen()
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

/** `before`: served beforehand; none: cold. */
function switchyard(policy: string, bed: Testbed, before: readonly AgentProgram[]): Arm {
  const programs = async (method: string, path: string, body?: object): Promise<void> => {
    const answer = await bed.fetch(`/v1/programs${path}`, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    await answer.body?.cancel()
  }
  const client: AgentClient = {
    ...{ url: `${bed.url}/v1`, key: bed.secrets.apiKey, model: PROVIDER_MODEL, retries: 2 },
    headers: ({ id }) => ({ 'x-program-id': id }),
    begins: ({ id, app }) => programs('POST', '', { id, app }),
    ends: ({ id }) => programs('DELETE', `/${id}`),
  }
  const serving = async (url: string, limits: object, work: () => Promise<void>): Promise<void> => {
    process.env.BENCH_PROVIDER_KEY = PROVIDER_KEY
    const server = { engine: 'openai', url, 'key-env': 'BENCH_PROVIDER_KEY', kind: 'openai', ...limits, policy }
    const agent = bed.agent({ id: `${REGION}-1`, region: REGION, flags: { ...server, 'context-tokens': 131_072 } })
    try {
      await agent.start()
      await work()
    } finally {
      await agent.end()
    }
  }
  const warmUp = async (): Promise<void> => {
    const unlimited = await newProvider([])
    try {
      await serving(unlimited.url, {}, async () => {
        const runs = await playAgents(before, client)
        const lost = runs.find(({ finished }) => !finished)
        if (lost !== undefined) throw new Error(`an agent that was served beforehand did not finish: ${lost.error}`)
      })
    } finally {
      await unlimited.close()
    }
    await untilKnown(bed, before)
  }
  const limit = `requests=${LIMITS.requests}/min,tokens=${LIMITS.tokens}/min`
  return {
    name: `Switchyard, ${policy}${policy === 'learned' ? (before.length > 0 ? ', warm' : ', cold') : ''}`,
    with: async (provider, play) => {
      if (before.length > 0) await warmUp()
      await serving(provider.url, { limit }, () => play(client))
    },
  }
}

/** The classes of all of them know that they have ended. */
async function untilKnown(bed: Testbed, before: readonly AgentProgram[]): Promise<void> {
  const names = new Set(before.map(({ app }) => `app:${app}`))
  const give_up_ms = performance.now() + KNOWN_MS_MAX
  let known = 0
  while (known < before.length) {
    if (performance.now() > give_up_ms) throw new Error(`the classes know of ${known} of ${before.length} programs`)
    await sleep(LOOK_MS)
    const answer = await bed.fetch('/admin/v1/classes?tenant=local', { apiKey: bed.secrets.adminKey })
    const { data } = (await answer.json()) as { data: { class: string; ends: number }[] }
    known = data.reduce((sum, one) => (names.has(one.class) ? sum + one.ends : sum), 0)
  }
}
