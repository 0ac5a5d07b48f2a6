/** What each npm package holds beside the code that its entry points load. */
import { NAMES } from './names.ts'

export interface PackageSpec {
  name: string
  description: string
  /** Name of the command, whose file lies in `bin/` here. */
  bin: string
  entries: readonly string[]
  /** Files and folders that code reads by name, as they are. */
  assets: readonly string[]
  /** Packages that code resolves by name without importing them. */
  resolved: readonly string[]
  /** The Worker, bundled; `wrangler.toml` names it. */
  worker: boolean
  readme: string
}

/** The agent's migrations, its engine's latency profiles, and the plug-in that it puts on vLLM's path. */
const AGENT_ENTRIES = [
  'gpu-agent/src/main.ts',
  'gpu-agent/src/fronts/child/child-main.ts',
  'gpu-agent/src/lending/plan-worker.ts',
]
const AGENT_ASSETS = ['gpu-agent/migrations', 'gpu-agent/engine/backends/emulated/profiles', 'gpu-agent/vllm/src']

export const NPM_PACKAGES: readonly PackageSpec[] = [
  {
    name: NAMES.system,
    description:
      'Switchyard: an edge control plane that serves agent programs. The whole system on one machine, and its command line.',
    bin: 'switchyard',
    entries: [
      ...['ops/up.ts', 'ops/down.ts', 'ops/status.ts', 'ops/reset.ts', 'ops/demo/main.ts'],
      ...['ops/control-plane.ts', 'ops/switchyard/main.ts'],
      ...AGENT_ENTRIES,
    ],
    assets: [
      ...['migrations', 'src/actors/storage/migrations', 'ops/python/uv.txt', 'gpu-agent/vllm/requirements'],
      ...['gpu-agent/vllm/tools/gguf_to_safetensors.py'],
      ...AGENT_ASSETS,
    ],
    resolved: ['workerd'],
    worker: true,
    readme: 'lab/packages/readme/switchyard.md',
  },
  {
    name: NAMES.agent,
    description:
      'The daemon on a GPU host: runs and fronts engines, schedules programs, keeps records until they are acknowledged.',
    bin: 'gpu-agent',
    entries: AGENT_ENTRIES,
    assets: AGENT_ASSETS,
    resolved: [],
    worker: false,
    readme: 'lab/packages/readme/gpu-agent.md',
  },
]
