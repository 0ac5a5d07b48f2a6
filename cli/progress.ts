/**
 * One line of progress for work that takes longer than a second: redrawn in place on a terminal, printed now and then
 * elsewhere. What ends within DELAY_MS stays silent.
 */
const DELAY_MS = 1000
const TERMINAL_INTERVAL_MS = 250
const LOG_INTERVAL_MS = 5000

export interface ProgressOutput {
  isTTY?: boolean
  write(text: string): unknown
}

/** Runs `work` and shows `label` with the seconds elapsed and, where `detail` knows more, that. */
export async function withProgress<T>(
  label: string,
  work: () => Promise<T>,
  detail: () => string | null = () => null,
  output: ProgressOutput = process.stderr,
): Promise<T> {
  const started_ms = performance.now()
  let shown = false
  const draw = () => {
    const elapsed_s = Math.round((performance.now() - started_ms) / 1000)
    const extra = detail()
    const line = `${label} … ${extra === null ? '' : `${extra}, `}${elapsed_s} s`
    output.write(output.isTTY ? `\r\x1b[2K${line}` : `${line}\n`)
    shown = true
  }
  let ticker: NodeJS.Timeout | undefined
  const delay = setTimeout(() => {
    draw()
    ticker = setInterval(draw, output.isTTY ? TERMINAL_INTERVAL_MS : LOG_INTERVAL_MS)
  }, DELAY_MS)
  try {
    return await work()
  } finally {
    clearTimeout(delay)
    clearInterval(ticker)
    if (shown) {
      const elapsed_s = ((performance.now() - started_ms) / 1000).toFixed(1)
      output.write(output.isTTY ? `\r\x1b[2K${label}: ${elapsed_s} s\n` : `${label}: ${elapsed_s} s\n`)
    }
  }
}

/** `37.1 MB (40 %)`. What a tool unpacks may be more than what it received. */
export function shareOf(received_bytes: number, total_bytes: number): string {
  const percent = Math.min(99, Math.floor((100 * received_bytes) / total_bytes))
  return `${megabytes(received_bytes)} (${percent} %)`
}

export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`
}
