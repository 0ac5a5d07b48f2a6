/** All figures, in the order of the page. */
import type { Figure } from '../figure.ts'
import { BETA } from './beta.ts'
import { FIGURE_2 } from './figure-2.ts'
import { FIGURE_4 } from './figure-4.ts'
import { FIGURE_5 } from './figure-5.ts'
import { FIGURE_6 } from './figure-6.ts'
import { FIGURE_7 } from './figure-7.ts'
import { FIGURE_11 } from './figure-11.ts'
import { FIGURE_12 } from './figure-12.ts'
import { FIGURE_12_MODELS } from './figure-12-models.ts'
import { FIGURE_13 } from './figure-13.ts'
import { FIGURE_14 } from './figure-14.ts'
import { FIGURE_15 } from './figure-15.ts'
import { FIGURE_16 } from './figure-16.ts'
import { FIGURE_17 } from './figure-17.ts'
import { FIGURE_18 } from './figure-18.ts'
import { FIGURE_19 } from './figure-19.ts'
import { GOALS } from './goals.ts'
import { LEARNED_FIGURE } from './learned.ts'
import { LEARNED_KNOWLEDGE } from './learned-knowledge.ts'
import { MISSES } from './misses.ts'
import { N_STEP } from './n-step.ts'
import { PLUGIN } from './plugin.ts'
import { SENSITIVITY } from './sensitivity.ts'
import { STALE_REPORTS } from './stale-reports.ts'
import { TENANTS } from './tenants.ts'

export const FIGURES: readonly Figure[] = [
  ...[GOALS, MISSES, LEARNED_FIGURE, LEARNED_KNOWLEDGE],
  ...[FIGURE_2, FIGURE_4, FIGURE_5, FIGURE_6, FIGURE_7, FIGURE_11],
  ...[
    FIGURE_12,
    FIGURE_12_MODELS,
    SENSITIVITY,
    FIGURE_13,
    FIGURE_14,
    FIGURE_15,
    FIGURE_16,
    FIGURE_17,
    FIGURE_18,
    FIGURE_19,
  ],
  ...[N_STEP, BETA, STALE_REPORTS, TENANTS, PLUGIN],
]
