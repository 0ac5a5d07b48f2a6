/** A place for a chart, which comes with the first one that is shown. Its figures are in a table beside it as well. */
import { useEffect, useRef, useState } from 'hono/jsx/dom'
import type { Chart, LegendItem } from './echarts.ts'

type Charts = typeof import('./all.ts')

interface Box<T> {
  label: string
  data: T
  make: (charts: Charts, element: HTMLElement) => Chart<T>
}

export function ChartBox<T>({ label, data, make }: Box<T>) {
  const box = useRef<HTMLDivElement>(null)
  const [chart, setChart] = useState<Chart<T> | null>(null)
  const [legend, setLegend] = useState<readonly LegendItem[]>([])
  const [failed, setFailed] = useState(false)
  useEffect(() => {
    let made: Chart<T> | null = null
    let isOver = false
    import('./all.ts').then(
      (charts) => {
        if (isOver || box.current === null) return
        made = make(charts, box.current)
        setChart(made)
      },
      () => setFailed(true),
    )
    return () => {
      isOver = true
      made?.close()
    }
  }, [])
  useEffect(() => setLegend(chart?.show(data) ?? []), [chart, data])
  if (failed) return <p class="state">The chart could not be loaded. The table below has its figures.</p>
  return (
    <>
      <p class="help legend">
        {legend.map(({ name, color, isDashed = false }) => (
          <span key={name}>
            <i class={isDashed ? 'line dashed' : 'line'} style={{ borderColor: color }} /> {name}
          </span>
        ))}
      </p>
      <div class="chart" role="img" aria-label={label} ref={box} />
    </>
  )
}
