/** evaluation.json as its readers take it: everything that the page says. Its runs are left unread. */
import { z } from 'zod'
import { PAPER_NAMES } from '../figure.ts'

const Compared = z.object({
  figure: z.string(),
  claim: z.string(),
  paper: z.number().nullable(),
  unit: z.string(),
  at_least: z.boolean().optional(),
  note: z.string().optional(),
  ours: z.object({ mean: z.number(), half_width_95: z.number().nullable(), seeds: z.number().int() }).nullable(),
})

const GoalData = z.object({
  figure: z.string(),
  goal: z.string(),
  target: z.string(),
  ours: z.string(),
  verdict: z.string(),
})

const FigureData = z.object({
  id: z.string(),
  title: z.string(),
  paper: z.string().nullable(),
  setup: z.string(),
  command: z.string(),
  /** `file`: an SVG beside the data. */
  panels: z.array(z.object({ file: z.string().regex(/^[\w-]+\.svg$/), alt: z.string() })),
  shows: z.array(z.string()),
  losses: z.array(z.string()),
  tables: z.array(z.object({ title: z.string(), columns: z.array(z.string()), rows: z.array(z.array(z.string())) })),
})

export const ReportData = z.object({
  provenance: z.object({
    paper: z.enum(PAPER_NAMES).default('autellix'),
    command: z.string(),
    seeds: z.object({ all: z.array(z.number().int()), ablations: z.number().int() }),
    quick: z.boolean(),
    code_version: z.string(),
    machine: z.string(),
    date: z.string(),
  }),
  unfinished: z.object({ runs_left: z.number().int(), left_out: z.array(z.string()) }).nullable(),
  /** Empty: no figure that has goals was played. */
  goals: z.array(GoalData).default([]),
  compared: z.array(Compared),
  figures: z.array(FigureData),
})
export type ReportData = z.infer<typeof ReportData>
export type FigureData = z.infer<typeof FigureData>
