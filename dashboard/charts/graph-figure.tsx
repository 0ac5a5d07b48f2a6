/** The graph of a program's calls as SVG. */
import { useEffect, useMemo, useState } from 'hono/jsx/dom'
import { seconds } from '../format.ts'
import { Loading } from '../parts/states.tsx'
import { Wide } from '../parts/wide.tsx'
import { type CallGraph, NODE_PX } from './call-graph.ts'
import type { PlacedCall, PlacedEdge, Point } from './graph-layout.ts'

type Layout = typeof import('./graph-layout.ts')

interface Figure {
  graph: CallGraph
  chosen: string | null
  choose: (call: string) => void
}

export function GraphFigure({ graph, chosen, choose }: Figure) {
  const [layout, setLayout] = useState<{ placed: Layout['placed'] } | null>(null)
  const [failed, setFailed] = useState(false)
  useEffect(() => {
    import('./graph-layout.ts').then(
      ({ placed }) => setLayout({ placed }),
      () => setFailed(true),
    )
  }, [])
  const drawn = useMemo(() => layout?.placed(graph) ?? null, [layout, graph])
  if (failed) return <p class="state">The graph could not be loaded. The table below has its calls.</p>
  if (drawn === null) return <Loading what="the graph" />
  const { width, height, calls, edges } = drawn
  return (
    <Wide label="Graph of the calls" isTall>
      <svg class="graph" width={width} height={height} viewBox={`0 0 ${width} ${height}`} aria-label="Calls">
        {edges.map((edge) => (
          <EdgeLine key={`${edge.from} ${edge.to}`} edge={edge} />
        ))}
        {calls.map((one, at) => (
          <CallNode key={one.call.id} placed={one} number={at + 1} isChosen={one.call.id === chosen} choose={choose} />
        ))}
      </svg>
    </Wide>
  )
}

/** Through the middles of its inner pieces, so that it bends and has no corners. */
function pathOf([first, ...rest]: readonly Point[]): string {
  if (first === undefined) return ''
  const last = rest.at(-1)
  const bends = rest.slice(0, -1).map((point, at) => {
    const next = rest[at + 1] ?? point
    return `Q${point.x} ${point.y} ${(point.x + next.x) / 2} ${(point.y + next.y) / 2}`
  })
  return `M${first.x} ${first.y}${bends.join('')}${last === undefined ? '' : `L${last.x} ${last.y}`}`
}

function EdgeLine({ edge }: { edge: PlacedEdge }) {
  const { points, tools, tool_s } = edge
  const isTool = tools.length > 0
  const middle = points[Math.floor(points.length / 2)]
  return (
    <g class={edge.isCritical ? 'edge critical' : 'edge'}>
      <path d={pathOf(points)} stroke-dasharray={isTool ? '4 3' : ''} />
      {isTool && middle !== undefined ? (
        <text x={middle.x} y={middle.y - 5}>
          <title>{`${tools.join(', ')}: ${seconds(tool_s)}`}</title>
          {shortened(tools.join(', '))}
        </text>
      ) : null}
    </g>
  )
}

const shortened = (text: string): string => (text.length > 9 ? `${text.slice(0, 8)}…` : text)

interface Node {
  placed: PlacedCall
  number: number
  isChosen: boolean
  choose: (call: string) => void
}

function CallNode({ placed: { call, isCritical, x, y }, number, isChosen, choose }: Node) {
  const classes = ['node', call.state, isCritical ? 'critical' : '', isChosen ? 'chosen' : '']
  const failed = call.outcome !== null && call.outcome !== 'completed'
  const pressed = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' && event.key !== ' ') return
    event.preventDefault()
    choose(call.id)
  }
  const told = call.state === 'open' ? 'open' : failed ? (call.outcome ?? 'failed') : seconds(call.service_wall_s)
  return (
    // biome-ignore lint/a11y/useSemanticElements: SVG has no button
    <g
      class={[...classes, failed ? 'failed' : ''].join(' ')}
      transform={`translate(${x} ${y})`}
      role="button"
      tabindex={0}
      aria-pressed={isChosen ? 'true' : 'false'}
      onClick={() => choose(call.id)}
      onKeyDown={pressed}
    >
      <rect width={NODE_PX.width} height={NODE_PX.height} rx="4" />
      <text x="8" y="13">{`Call ${number} `}</text>
      <text class="quiet" x="8" y="26">
        {told}
      </text>
    </g>
  )
}
