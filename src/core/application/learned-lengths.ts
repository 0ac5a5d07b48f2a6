/**
 * Which lengths to expect of a node's answers: those of nodes that asked the same before, and where there are too few, those of its model. Where the
 * length depends on the prompt ("answer in one word"), it is the node's template that says so, and limits of tokens do not change what is asked.
 */
import type { OutputLengths } from '../../protocol/application-tokens.ts'
import { canonicalJson } from './canonical-json.ts'
import type { NodeForm } from './graph-schema.ts'
import {
  answersIn,
  type LengthSketch,
  lengthsOf,
  type ModelLengths,
  mergedLengths,
  OUTPUT_LIMITS,
} from './output-lengths.ts'

/** With fewer, a node takes the lengths of its model. */
export const NODE_ANSWERS_MIN = 20
/** With fewer, nothing is known of a model. */
export const MODEL_ANSWERS_MIN = 8

type Asked = Pick<NodeForm, 'model' | 'endpoint' | 'body'>

/** A node that has run. */
export interface RunNode {
  node: Asked
  lengths: LengthSketch
}

/** `besides`: lengths of which only the model is known. */
export function learnedLengths(
  before: readonly RunNode[],
  besides: readonly ModelLengths[] = [],
): (node: Asked) => OutputLengths | null {
  const of_nodes = Map.groupBy(before, ({ node }) => askedBy(node))
  const all = [...before.map(({ node: { model }, lengths }) => ({ model, lengths })), ...besides]
  const of_models = Map.groupBy(all, ({ model }) => model)
  const known = (
    found: readonly { lengths: LengthSketch }[] | undefined,
    answers_min: number,
  ): OutputLengths | null => {
    const merged = mergedLengths((found ?? []).map(({ lengths }) => lengths))
    return answersIn(merged) >= answers_min ? lengthsOf(merged) : null
  }
  return (node) =>
    known(of_nodes.get(askedBy(node)), NODE_ANSWERS_MIN) ?? known(of_models.get(node.model), MODEL_ANSWERS_MIN)
}

function askedBy({ model, endpoint, body }: Asked): string {
  const asked = Object.entries(body).filter(([name]) => !OUTPUT_LIMITS.some((limit) => limit === name))
  return canonicalJson({ model, endpoint, body: Object.fromEntries(asked) })
}
