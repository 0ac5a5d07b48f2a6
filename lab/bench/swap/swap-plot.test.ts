import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { swapReport } from './report.ts'
import { swapPlot } from './swap-plot.ts'

const MEASURED = readFileSync(new URL('../../../docs/kv-swap/h100.json', import.meta.url), 'utf8')

function read(text: string) {
  const read = swapReport(text)
  if (!read.ok) throw new Error(read.reason)
  return read.report
}

describe('the figures of the KV swap', () => {
  it('are drawn with the device, the day and every method', () => {
    const svg = swapPlot(read(MEASURED))
    expect(svg.startsWith('<svg')).toBe(true)
    for (const text of ['NVIDIA H100', '2026-11-22', 'batch copy', '32,768', 'limit of the link'])
      expect(svg).toContain(text)
  })

  it('are those that the page shows', () => {
    const shown = readFileSync(new URL('../../../docs/kv-swap/h100.svg', import.meta.url), 'utf8')
    // The names of classes and clip paths are counted up by the process.
    const plain = (svg: string) => svg.replaceAll(/zr\d+-[a-z0-9-]+/g, '')
    expect(plain(swapPlot(read(MEASURED)))).toBe(plain(shown))
  })

  it('leave out a method that was not measured', () => {
    const report = read(MEASURED)
    const cases = report.cases.filter((one) => one.method !== 'triton-to-host')
    expect(() => swapPlot({ ...report, cases })).not.toThrow()
    expect(swapPlot({ ...report, cases })).not.toBe(swapPlot(report))
  })

  it('are refused with the reason if they are others', () => {
    expect(swapReport('{')).toMatchObject({ ok: false })
    const other = swapReport(JSON.stringify({ ...JSON.parse(MEASURED), format: 2 }))
    expect(other.ok ? '' : other.reason).toContain('format')
    expect(swapReport(JSON.stringify({ ...JSON.parse(MEASURED), cases: [] }))).toMatchObject({ ok: false })
  })
})
