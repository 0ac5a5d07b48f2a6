/** The figures of LAMPS’ evaluation, in the order of the page. */
import type { Figure } from '../figure.ts'
import { FIGURE_2 } from './figure-2.ts'
import { FIGURE_6, FIGURE_7, FIGURE_8 } from './figure-6.ts'
import { FIGURE_9 } from './figure-9.ts'
import { FIGURE_10, INFERCEPT_PARTS } from './figure-10.ts'
import { DATA_SETS, FIGURE_11 } from './figure-11.ts'

export const LAMPS_FIGURES: readonly Figure[] = [
  ...[FIGURE_6, FIGURE_7, FIGURE_8, FIGURE_2, FIGURE_9, FIGURE_10, FIGURE_11],
  ...[INFERCEPT_PARTS, DATA_SETS],
]
