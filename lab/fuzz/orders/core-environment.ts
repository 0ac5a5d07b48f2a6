/** The Python environment of the order's tests: ruff, mypy, pytest, hypothesis; no vLLM. */
import { switchyardCacheFolder } from '../../../ops/model/cache-folder.ts'
import { pythonEnvironment } from '../../../ops/python/environment.ts'
import type { EnvironmentSpec, PythonResult } from '../../../ops/python/environment-spec.ts'
import { lockFile } from '../../../ops/vllm/environment.ts'

const CORE: EnvironmentSpec = {
  name: 'vllm-core-env',
  lock_file: lockFile('test.txt'),
  download: "the tools of the order's tests, 40 MB",
  installer: 'pip',
}

export function corePython(): Promise<PythonResult> {
  return pythonEnvironment(CORE, { cache_folder: switchyardCacheFolder() })
}
