/** Runs a command-line tool to its end: its output, bounded, and one reason if it failed. Nothing here throws. */
import { spawn } from 'node:child_process'

const OUTPUT_CHARS_MAX = 16_000

export type ToolRun = { status: 'done'; output: string } | { status: 'absent' } | { status: 'failed'; reason: string }

export interface ToolOptions {
  timeout_ms: number
  env?: Readonly<Record<string, string | undefined>>
  /** Default: this process's own. */
  cwd?: string
  /** Ends the tool; the run has then failed. */
  signal?: AbortSignal | undefined
  /** Every whole line that it prints. */
  onLine?: (line: string) => void
}

export function runTool(command: readonly string[], options: ToolOptions): Promise<ToolRun> {
  const [file, ...args] = command
  if (file === undefined) throw new Error('a tool needs a command')
  const { timeout_ms, env = process.env, cwd, signal, onLine } = options
  if (signal?.aborted) return Promise.resolve({ status: 'failed', reason: 'it was stopped' })
  return new Promise((resolve) => {
    const child = spawn(file, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...env },
      ...(cwd === undefined ? {} : { cwd }),
      timeout: timeout_ms,
      killSignal: 'SIGKILL',
      signal,
    })
    let output = ''
    let line = ''
    const keep = (text: string) => {
      output = (output + text).slice(-OUTPUT_CHARS_MAX)
      const lines = (line + text).split(/[\r\n]+/)
      line = (lines.pop() ?? '').slice(-OUTPUT_CHARS_MAX)
      for (const whole of lines) onLine?.(whole)
    }
    child.stdout.setEncoding('utf8').on('data', keep)
    child.stderr.setEncoding('utf8').on('data', keep)
    child.on('error', (error: NodeJS.ErrnoException) => {
      if (signal?.aborted) resolve({ status: 'failed', reason: 'it was stopped' })
      else if (error.code === 'ENOENT') resolve({ status: 'absent' })
      else resolve({ status: 'failed', reason: error.message })
    })
    child.on('close', (code, killed) => {
      if (code === 0) resolve({ status: 'done', output })
      else if (signal?.aborted) resolve({ status: 'failed', reason: 'it was stopped' })
      else if (killed === 'SIGKILL' && child.killed)
        resolve({ status: 'failed', reason: `no end after ${timeout_ms / 1000} s` })
      else resolve({ status: 'failed', reason: `exit ${code ?? killed}: ${lastLines(output)}` })
    })
  })
}

/** Tools say what went wrong in their last lines with an error in them; older lines only repeat it. */
function lastLines(output: string): string {
  const lines = output.split('\n').filter((line) => line.trim() !== '')
  const errors = lines.filter((line) => /error/i.test(line))
  return (errors.length > 0 ? errors : lines).slice(-2).join(' ').slice(0, 500)
}
