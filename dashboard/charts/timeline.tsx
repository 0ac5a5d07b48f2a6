/** A program's calls over time as SVG: a row for each thread. What lies under the pointer is told below, and in the table. */
import { useEffect, useMemo, useRef, useState } from 'hono/jsx/dom'
import type { CallGraph } from './call-graph.ts'
import { callSpans, isTool, type Span, spanText } from './call-spans.ts'
import { moved, type Seen, ticksMs, WHOLE, zoomed } from './timeline-scale.ts'

const LANE_PX = 26
const SPAN_PX = 16
const TOOL_PX = 5
const AXIS_PX = 24
/** Nothing is thinner. */
const WIDTH_MIN_PX = 1.5
const TICK_PX = 84
const CHAR_PX = 6.5
const NAME_CHARS_MAX = 18
const STEP = 0.5

interface Figure {
  graph: CallGraph
  choose: (call: string) => void
}

export function Timeline({ graph: { calls, lanes }, choose }: Figure) {
  const box = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(0)
  const [seen, setSeen] = useState<Seen>(WHOLE)
  const [told, setTold] = useState<Span | null>(null)
  useEffect(() => {
    if (box.current === null) return
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)))
    observer.observe(box.current)
    return () => observer.disconnect()
  }, [])
  const { spans, start_ms, end_ms } = useMemo(() => {
    const all = callSpans(
      calls.map(({ call }) => call),
      lanes,
      Date.now(),
    )
    const first_ms = all.reduce((least, { from_ms }) => Math.min(least, from_ms), Number.POSITIVE_INFINITY)
    return { spans: all, start_ms: first_ms, end_ms: all.reduce((most, { to_ms }) => Math.max(most, to_ms), first_ms) }
  }, [calls, lanes])
  const names = lanes.map((name) => (name.length > NAME_CHARS_MAX ? `${name.slice(0, NAME_CHARS_MAX - 1)}…` : name))
  const left_px = 8 + CHAR_PX * Math.min(width / 5 / CHAR_PX, Math.max(...names.map((name) => name.length)))
  const whole_ms = Math.max(1, end_ms - start_ms)
  const [from_ms, to_ms] = [seen.from * whole_ms, seen.to * whole_ms]
  const plot_px = Math.max(1, width - left_px - 12)
  const x = (ms: number) => left_px + (plot_px * (ms - from_ms)) / (to_ms - from_ms)
  const height = lanes.length * LANE_PX + AXIS_PX
  const wheel = (event: WheelEvent) => {
    if (!event.ctrlKey) return
    event.preventDefault()
    const at = Math.min(1, Math.max(0, (event.offsetX - left_px) / plot_px))
    setSeen(zoomed(seen, event.deltaY < 0 ? STEP : 1 / STEP, at))
  }
  const zoom = (factor: number) => () => setSeen(zoomed(seen, factor))
  const move = (views: number) => () => setSeen(moved(seen, views))
  return (
    <div class="timeline">
      <div ref={box} onWheel={wheel}>
        <svg
          width={width}
          height={height}
          role="img"
          aria-label={`Timeline of ${calls.length} calls; the table below has its figures`}
        >
          {ticksMs(from_ms, to_ms, Math.max(1, Math.floor(plot_px / TICK_PX))).map((ms) => (
            <g key={ms} class="tick">
              <path d={`M${x(ms)} 0V${height - AXIS_PX}`} />
              <text x={x(ms)} y={height - 8}>
                {`${Number((ms / 1000).toPrecision(6))} s`}
              </text>
            </g>
          ))}
          <svg x={left_px} y={0} width={plot_px} height={height} aria-hidden="true">
            {spans.map((span) => (
              <Bar
                key={`${span.call} ${span.kind} ${span.from_ms}`}
                span={span}
                x={x(span.from_ms - start_ms) - left_px}
                end={x(span.to_ms - start_ms) - left_px}
                tell={() => setTold(span)}
                choose={choose}
              />
            ))}
          </svg>
          {names.map((name, lane) => (
            <text key={lanes[lane] ?? name} class="lane" x={left_px - 6} y={lane * LANE_PX + LANE_PX / 2 + 4}>
              {name}
            </text>
          ))}
        </svg>
      </div>
      <div class="buttons">
        <button type="button" onClick={zoom(STEP)}>
          Zoom in
        </button>
        <button type="button" disabled={seen.to - seen.from === 1} onClick={zoom(1 / STEP)}>
          Zoom out
        </button>
        <button type="button" disabled={seen.from === 0} onClick={move(-STEP)}>
          Earlier
        </button>
        <button type="button" disabled={seen.to === 1} onClick={move(STEP)}>
          Later
        </button>
        <span class="quiet">{told === null ? '' : spanText(told)}</span>
      </div>
    </div>
  )
}

interface BarProps {
  span: Span
  x: number
  end: number
  tell: () => void
  choose: (call: string) => void
}

function Bar({ span, x, end, tell, choose }: BarProps) {
  const height = isTool(span) ? TOOL_PX : SPAN_PX
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the graph chooses calls with the keyboard, and the table has all figures
    <rect
      class={span.kind}
      x={x}
      y={span.lane * LANE_PX + (LANE_PX - height) / 2}
      width={Math.max(WIDTH_MIN_PX, end - x)}
      height={height}
      onMouseEnter={tell}
      onClick={() => {
        tell()
        choose(span.call)
      }}
    />
  )
}
