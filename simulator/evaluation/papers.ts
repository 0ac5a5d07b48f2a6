/** The papers whose evaluations are played, each with its figures, its introduction and the folder of its report. */
import path from 'node:path'
import type { Figure, PaperName } from './figure.ts'
import { FIGURES } from './figures/index.ts'
import { LAMPS_FIGURES } from './lamps/index.ts'

interface Paper {
  figures: readonly Figure[]
  /** Where a whole evaluation is written. */
  out: string
}

export const PAPERS: Readonly<Record<PaperName, Paper>> = {
  autellix: { figures: FIGURES, out: path.join('docs', 'evaluation') },
  lamps: { figures: LAMPS_FIGURES, out: path.join('docs', 'evaluation', 'lamps') },
}
