/** The command lines of agents and control planes that images, compose.yaml, manifests and units hold. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { parse, parseAllDocuments } from 'yaml'
import { z } from 'zod'
import { ROOT } from '../testbed/repository.ts'

export interface StartCommand {
  where: string
  args: string[]
  /** Seconds from SIGTERM to SIGKILL. */
  stop_s: number
}

const Compose = z.object({
  services: z.record(
    z.string(),
    z.object({
      build: z.object({ dockerfile: z.string(), target: z.string().optional() }).optional(),
      image: z.string(),
      command: z.array(z.string()).optional(),
      environment: z.record(z.string(), z.string()).optional(),
      volumes: z.array(z.string()).optional(),
      stop_grace_period: z.string().optional(),
    }),
  ),
  volumes: z.record(z.string(), z.unknown()),
})
export type ComposeFile = z.infer<typeof Compose>

const StatefulSet = z.object({
  kind: z.literal('StatefulSet'),
  spec: z.object({
    template: z.object({
      spec: z.object({
        terminationGracePeriodSeconds: z.number(),
        containers: z
          .array(
            z.object({
              args: z.array(z.string()),
              startupProbe: z.object({ periodSeconds: z.number(), failureThreshold: z.number() }),
            }),
          )
          .length(1),
      }),
    }),
  }),
})

export function read(file: string): string {
  return readFileSync(path.join(ROOT, file), 'utf8')
}

export function composeFile(): ComposeFile {
  return Compose.parse(parse(read('compose.yaml'), { merge: true }))
}

/** `target`: of a file with several; null: its last stage. */
export function imageCommand(file: string, target: string | null, instruction: 'ENTRYPOINT' | 'CMD'): string[] {
  const stages = read(file).split(/^(?=FROM )/m)
  const stage = stages.findLast((text) => target === null || new RegExp(`^FROM .* AS ${target}$`, 'm').test(text)) ?? ''
  const line = new RegExp(`^${instruction} (\\[.*\\])$`, 'm').exec(stage)?.[1]
  return line === undefined ? [] : z.array(z.string()).parse(JSON.parse(line))
}

export function composeAgents(): StartCommand[] {
  return Object.entries(composeFile().services)
    .filter(([, { build }]) => build?.target === 'embedded')
    .map(([name, { build, command = [], stop_grace_period = '10s' }]) => {
      const entry = imageCommand(build?.dockerfile ?? '', build?.target ?? null, 'ENTRYPOINT')
      return {
        where: `compose.yaml: ${name}`,
        args: [...entry.slice(1), ...command],
        stop_s: Number.parseInt(stop_grace_period, 10),
      }
    })
}

export function kubernetesAgent(): StartCommand & { start_s: number } {
  const documents = parseAllDocuments(read('ops/kubernetes/gpu-agent.yaml')).map(
    (document) => document.toJSON() as unknown,
  )
  const set = documents.map((document) => StatefulSet.safeParse(document)).find(({ success }) => success)?.data
  if (set === undefined) throw new Error('ops/kubernetes/gpu-agent.yaml has no StatefulSet')
  const { terminationGracePeriodSeconds: stop_s, containers } = set.spec.template.spec
  const [container] = containers
  if (container === undefined) throw new Error('the StatefulSet has no container')
  const entry = imageCommand('ops/images/gpu-agent.Dockerfile', 'vllm', 'ENTRYPOINT')
  const { periodSeconds, failureThreshold } = container.startupProbe
  return {
    where: 'ops/kubernetes/gpu-agent.yaml',
    args: [...entry.slice(1), ...container.args].map((arg) =>
      arg.replaceAll('$(POD_NAME)', 'gpu-agent-0').replaceAll('$(POD_NAMESPACE)', 'default'),
    ),
    stop_s,
    start_s: periodSeconds * failureThreshold,
  }
}

/** The settings of a unit's [Service], and the words of its ExecStart. */
export function unit(file: string): { settings: ReadonlyMap<string, string>; command: string[] } {
  const text = read(file).replaceAll(/\\\n\s*/g, '')
  const lines = text.split('\n').filter((line) => /^\w+=/.test(line))
  const settings = new Map(lines.map((line) => line.split(/=(.*)/s) as [string, string]))
  return { settings, command: settings.get('ExecStart')?.split(' ') ?? [] }
}
