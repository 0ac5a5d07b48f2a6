/** The graph of a program's calls as SVG. */
import { seconds } from '../format.ts'
import { Wide } from '../parts/wide.tsx'
import type { CallGraph, Edge, PlacedCall } from './call-graph.ts'

const COLUMN_PX = 150
const ROW_PX = 46
const NODE_PX = { width: 96, height: 32 }
const MARGIN_PX = 12

interface Figure {
  graph: CallGraph
  chosen: string | null
  choose: (call: string) => void
}

export function GraphFigure({ graph, chosen, choose }: Figure) {
  const width = graph.columns * COLUMN_PX - (COLUMN_PX - NODE_PX.width) + 2 * MARGIN_PX
  const height = graph.rows * ROW_PX + MARGIN_PX
  const placed = new Map(graph.calls.map((one) => [one.call.id, one]))
  return (
    <Wide label="Graph of the calls" isTall>
      <svg class="graph" width={width} height={height} viewBox={`0 0 ${width} ${height}`} aria-label="Calls">
        {graph.edges.map((edge) => (
          <EdgeLine key={`${edge.from} ${edge.to}`} edge={edge} from={placed.get(edge.from)} to={placed.get(edge.to)} />
        ))}
        {graph.calls.map((one, at) => (
          <CallNode key={one.call.id} placed={one} number={at + 1} isChosen={one.call.id === chosen} choose={choose} />
        ))}
      </svg>
    </Wide>
  )
}

const left = ({ column }: PlacedCall) => MARGIN_PX + column * COLUMN_PX
const middle = ({ row }: PlacedCall) => MARGIN_PX + row * ROW_PX + NODE_PX.height / 2

function EdgeLine({ edge, from, to }: { edge: Edge; from: PlacedCall | undefined; to: PlacedCall | undefined }) {
  if (from === undefined || to === undefined) return null
  const [x1, y1, x2, y2] = [left(from) + NODE_PX.width, middle(from), left(to), middle(to)]
  const bend = Math.min(40, (x2 - x1) / 2)
  const isTool = edge.tools.length > 0
  const text = isTool ? shortened(edge.tools.join(', ')) : ''
  return (
    <g class={edge.isCritical ? 'edge critical' : 'edge'}>
      <path
        d={`M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`}
        stroke-dasharray={isTool ? '4 3' : ''}
      />
      {isTool && to.row === from.row ? (
        <text x={(x1 + x2) / 2} y={y1 - 5}>
          <title>{`${edge.tools.join(', ')}: ${seconds(edge.tool_s)}`}</title>
          {text}
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

function CallNode({ placed, number, isChosen, choose }: Node) {
  const { call, isCritical } = placed
  const classes = ['node', call.state, isCritical ? 'critical' : '', isChosen ? 'chosen' : '']
  const failed = call.outcome !== null && call.outcome !== 'completed'
  const pressed = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' && event.key !== ' ') return
    event.preventDefault()
    choose(call.id)
  }
  const told = call.state === 'open' ? 'open' : failed ? (call.outcome ?? 'failed') : seconds(call.service_s)
  return (
    // biome-ignore lint/a11y/useSemanticElements: SVG has no button
    <g
      class={[...classes, failed ? 'failed' : ''].join(' ')}
      transform={`translate(${left(placed)} ${middle(placed) - NODE_PX.height / 2})`}
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
