/** Runs Python programs of gpu-agent/vllm/tools with the Python that has vLLM. */
import { execFile, spawn } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { fail } from '../../cli/flags.ts'
import { switchyardCacheFolder } from '../../ops/model/cache-folder.ts'
import { VLLM_ROOT, vllmPython } from '../../ops/vllm/environment.ts'
import { deviceOf, thisHost } from '../../ops/vllm/host.ts'

const PRINTED_BYTES_MAX = 64 << 20

export interface VllmTools {
  /** In front of the terminal; its exit code. */
  run(module: string, args: readonly string[]): Promise<number>
  /** What it prints. It fails if the program does. */
  printed(module: string): Promise<string>
}

/** Installs vLLM when it is missing, and ends the process with a reason when it cannot. */
export async function vllmTools(): Promise<VllmTools> {
  const host = deviceOf(thisHost(), 1)
  if (!host.ok && !process.env.SWITCHYARD_VLLM_PYTHON) fail(host.reason)
  const device = host.ok ? host.device : 'cpu'
  const found = await vllmPython(device, { cache_folder: switchyardCacheFolder() })
  if (!found.ok) fail(`vLLM cannot run here: ${found.reason}`)
  const { python } = found
  const paths = ['src', 'tools'].map((folder) => path.join(VLLM_ROOT, folder)).join(path.delimiter)
  const interpreted = device === 'cpu' ? { TRITON_INTERPRET: '1' } : {}
  const env = { ...process.env, ...interpreted, PYTHONPATH: paths, PYTHONDONTWRITEBYTECODE: '1' }
  return {
    run: (module, args) => {
      const child = spawn(python, ['-m', module, ...args], { cwd: VLLM_ROOT, stdio: 'inherit', env })
      return new Promise((resolve, reject) => {
        child.on('error', reject)
        child.on('close', (code) => resolve(code ?? 1))
      })
    },
    printed: async (module) => {
      const options = { cwd: VLLM_ROOT, env, maxBuffer: PRINTED_BYTES_MAX }
      return (await promisify(execFile)(python, ['-m', module], options)).stdout
    },
  }
}
