/** Runs a Python program of gpu-agent/vllm/tools with the Python that has vLLM, in front of the terminal. */
import { spawn } from 'node:child_process'
import path from 'node:path'
import { fail } from '../../cli/flags.ts'
import { switchyardCacheFolder } from '../../ops/model/cache-folder.ts'
import { VLLM_ROOT, vllmPython } from '../../ops/vllm/environment.ts'
import { deviceOf, thisHost } from '../../ops/vllm/host.ts'

/** Its exit code. Installs vLLM when it is missing, and ends the process with a reason when it cannot. */
export async function runVllmTool(module: string, args: readonly string[]): Promise<number> {
  const host = deviceOf(thisHost(), 1)
  if (!host.ok && !process.env.SWITCHYARD_VLLM_PYTHON) fail(host.reason)
  const device = host.ok ? host.device : 'cpu'
  const python = await vllmPython(device, { cache_folder: switchyardCacheFolder() })
  if (!python.ok) fail(`vLLM cannot run here: ${python.reason}`)
  const paths = ['src', 'tools'].map((folder) => path.join(VLLM_ROOT, folder)).join(path.delimiter)
  const interpreted = device === 'cpu' ? { TRITON_INTERPRET: '1' } : {}
  const env = { ...process.env, ...interpreted, PYTHONPATH: paths, PYTHONDONTWRITEBYTECODE: '1' }
  const child = spawn(python.python, ['-m', module, ...args], { cwd: VLLM_ROOT, stdio: 'inherit', env })
  return await new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => resolve(code ?? 1))
  })
}
