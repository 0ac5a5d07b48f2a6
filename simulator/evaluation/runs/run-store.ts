/**
 * Finished runs on disk, so that an evaluation can be stopped and taken up again. A file is named by the hash of its spec and
 * lies in a folder named by the code that played it. After a change of the simulator, the engine or core every run is played
 * again, and after a change of one policy only its runs.
 */
import { createHash } from 'node:crypto'
import { globSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { POLICY_NAMES, type PolicyName } from '../../policies/index.ts'
import { systemOf } from '../systems.ts'
import type { RunOutcome } from './run-outcome.ts'
import { type RunSpec, specKey } from './run-spec.ts'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const POLICIES = 'gpu-agent/engine/order/policies'
/** What every outcome depends on, the policies apart. Of the evaluation itself only how a spec is played. */
const CODE = [
  'simulator/*.ts',
  'simulator/{policies,workloads,world}/**/*.{ts,json}',
  'simulator/engines/swap-kernels.{ts,json}',
  'simulator/evaluation/systems.ts',
  'simulator/evaluation/runs/{play,run-outcome,run-programs,run-spec,toy-programs}.ts',
  'gpu-agent/engine/**/*.{ts,json}',
  'src/core/**/*.ts',
]
/** Where the policies of engines begin. Those that are not listed are the simulator's own. */
const POLICY_MODULES: Readonly<Partial<Record<PolicyName, string>>> = {
  fcfs: 'fcfs/fcfs.ts',
  'fcfs-program': 'fcfs/fcfs.ts',
  mlfq: 'mlfq/mlfq.ts',
  rr: 'rr/rr.ts',
  plas: 'plas/plas.ts',
  atlas: 'atlas/atlas.ts',
  learned: 'learned/learned.ts',
  lamps: 'lamps/lamps.ts',
  'learned-memory': 'learned-memory/learned-memory.ts',
  infercept: 'infercept/infercept.ts',
  'vllm-discard': 'infercept/infercept.ts',
  'vllm-preserve': 'infercept/infercept.ts',
}

export interface CodeVersions {
  /** Of all code that any run depends on. */
  readonly all: string
  /** Of the code that a run under this policy depends on. */
  readonly of: Readonly<Record<PolicyName, string>>
}

/** Hashes over the names and texts of the code that outcomes depend on. */
export function codeVersions(root = ROOT): CodeVersions {
  const shared = globSync(CODE, { cwd: root })
    .filter((file) => !/\.(test|contract)\.ts$|\/(fit|testing)\//.test(file))
    .filter((file) => !isOfPolicy(file))
  const files = (policy: PolicyName) => {
    const module = POLICY_MODULES[policy]
    return module === undefined ? [] : withImports(`${POLICIES}/${module}`, root)
  }
  return {
    all: hashOf([...shared, ...new Set(POLICY_NAMES.flatMap(files))], root),
    of: Object.fromEntries(
      POLICY_NAMES.map((policy) => [policy, hashOf([...shared, ...files(policy)], root)]),
    ) as CodeVersions['of'],
  }
}

function isOfPolicy(file: string): boolean {
  return path.dirname(path.dirname(file)) === POLICIES
}

function hashOf(files: readonly string[], root: string): string {
  const hash = createHash('sha256')
  for (const file of files.toSorted())
    hash
      .update(file)
      .update('\0')
      .update(readFileSync(path.join(root, file)))
  return hash.digest('hex').slice(0, 12)
}

/** A module and what it imports from folders of policies. */
function withImports(module: string, root: string, found = new Set<string>()): string[] {
  if (found.has(module)) return []
  found.add(module)
  for (const [, relative] of readFileSync(path.join(root, module), 'utf8').matchAll(/ from '(\.[^']+)'/g)) {
    const imported = path.join(path.dirname(module), relative as string)
    if (isOfPolicy(imported)) withImports(imported, root, found)
  }
  return [...found]
}

export class RunStore {
  readonly #folder: string
  readonly #versions: CodeVersions['of']

  constructor(folder: string, versions: CodeVersions['of']) {
    this.#folder = folder
    this.#versions = versions
  }

  /** Null: not played yet. */
  read(spec: RunSpec): RunOutcome | null {
    try {
      return JSON.parse(readFileSync(this.#file(spec), 'utf8')) as RunOutcome
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
      throw error
    }
  }

  /** A reader sees the whole file or none. */
  write(spec: RunSpec, outcome: RunOutcome): void {
    const file = this.#file(spec)
    mkdirSync(path.dirname(file), { recursive: true })
    writeFileSync(`${file}.part`, JSON.stringify(outcome))
    renameSync(`${file}.part`, file)
  }

  #file(spec: RunSpec): string {
    return path.join(this.#folder, this.#versions[systemOf(spec.system).policy], `${specKey(spec)}.json`)
  }
}
