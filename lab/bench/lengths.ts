/**
 * `npm run bench:lengths`: how well the length of an answer is foreseen, by what calls of its class wrote (what engines serve
 * by) and by LAMPS' linear classifier over the prompt's last token (§6.4), on answers that the real model writes.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { flagsOrExit, wholeNumber } from '../../cli/flags.ts'
import { type Column, textTable } from '../../cli/table.ts'
import { findOrFetchModel } from '../../ops/model/find-or-fetch.ts'
import { seededRandom } from '../../simulator/random.ts'
import { ClassSketch } from '../../src/core/classes/class-sketch.ts'
import { type CallSituation, type KnownTools, outputBySituation } from '../../src/core/tools/forecast.ts'
import { LengthClassifier, outputByPrompt } from '../../src/core/tools/length-classifier.ts'
import { type CollectedSample, collectSamples } from './lengths/collect.ts'
import { lengthPrompts } from './lengths/prompts.ts'
import { type BinScore, binScores, type LengthScore, lengthScore, type Predicted } from './lengths/score.ts'

const HELP = `How well the length of an answer is foreseen. The real model answers prompts of real text: paragraphs of this project's
documentation with a task behind each, and short questions. Predictors learn from 80 % of the answers and are judged by the rest.
Half an hour on two cores.

  npm run bench:lengths -- [flags]

  --prompts 400
  --seed 1        of the order, the split and the training
  --model PATH    a GGUF (default: the shipped small model)
  --json FILE     all figures, and the lengths of all prompts and answers
  --help`

const TEXT = { type: 'string' } as const
const values = flagsOrExit('bench:lengths', HELP, {
  ...{ prompts: { ...TEXT, default: '400' }, seed: { ...TEXT, default: '1' }, model: TEXT, json: TEXT },
})
const prompts = wholeNumber('--prompts', values.prompts, 10, 100_000)
const random = seededRandom(wholeNumber('--seed', values.seed, 0, 1_000_000))
const TRAIN_SHARE = 0.8

interface Row extends LengthScore {
  predictor: string
  bins: BinScore[]
}

const model = await findOrFetchModel(values.model === undefined ? {} : { model: values.model })
const asked = lengthPrompts(join(import.meta.dirname, '../../docs'), prompts, random)
const samples = await collectSamples(model.path, asked, (done) => {
  if (done % 20 === 0) process.stderr.write(`${done} of ${asked.length} answers\n`)
})
const split = Math.floor(TRAIN_SHARE * samples.length)
const [train, test] = [samples.slice(0, split), samples.slice(split)]
const words_per_token = sum(train, 'words') / Math.max(1, sum(train, 'tokens'))
const classifier = LengthClassifier.train(train, random)
const by_prompt = outputByPrompt(classifier, outputBySituation)

const books = new Map<string, ClassSketch>()
for (const { task, tokens } of train)
  for (const name of [task, 'all']) {
    const sketch = books.get(name) ?? new ClassSketch()
    books.set(name, sketch)
    sketch.tools.add({ position: 0, last: null, output_tokens: tokens, tools: [] })
  }

const situation: CallSituation = { position: 0, last: null, offered: null, expect_tool_us: null }
const known = (name: string): KnownTools => ({ of_class: books.get(name)?.tools ?? null, of_tenant: () => null })
const rows = [
  row('class: one for all', () => median(known('all'))),
  row('class: one for each task', ({ task }) => median(known(task))),
  row('prompt: likeliest bin', ({ embedding }) => classifier.likeliestTokens(embedding)),
  row('prompt: median', ({ embedding }) => median(known('all'), embedding)),
]
const began_us = performance.now() * 1000
for (const { embedding } of test) classifier.probabilities(embedding)
const classify_us = (performance.now() * 1000 - began_us) / Math.max(1, test.length)
const embed_us = samples.map((sample) => sample.embed_us).sort((a, b) => a - b)[Math.floor(samples.length / 2)] ?? 0

console.log(
  `${train.length} answers to learn from, ${test.length} to judge by; ${words_per_token.toFixed(2)} words a token`,
)
console.log(textTable(columns(), rows))
for (const { predictor, bins } of rows.slice(1, 3))
  console.log(`\n${predictor}, by bins\n${textTable(binColumns(), bins)}`)
console.log(
  `\nPrediction: ${(embed_us / 1000).toFixed(1)} ms for the embedding (median; with the prompt's prefill, beside other calls), ` +
    `${(classify_us / 1000).toFixed(2)} ms for the classifier`,
)
if (values.json !== undefined) {
  const figures = {
    model: model.id,
    prompts,
    train: train.length,
    test: test.length,
    words_per_token,
    embed_us,
    classify_us,
  }
  const lengths = samples.map(({ task, prompt_tokens, tokens }) => ({ task, prompt_tokens, output_tokens: tokens }))
  writeFileSync(values.json, `${JSON.stringify({ ...figures, rows, lengths }, null, 1)}\n`)
}

function row(predictor: string, tell: (sample: CollectedSample) => number): Row {
  const all = test.map((sample): Predicted => ({ told_tokens: tell(sample), ...lengthOf(sample) }))
  return { predictor, ...lengthScore(all, words_per_token), bins: binScores(all) }
}

function lengthOf({ tokens, words }: CollectedSample): Pick<Predicted, 'tokens' | 'words'> {
  return { tokens, words }
}

/** As engines are told, but for the mean. */
function median(of: KnownTools, prompt_embedding: ArrayLike<number> | null = null): number {
  return by_prompt.outputTokens({ ...situation, prompt_embedding }, of)?.quantile(0.5) ?? 0
}

function sum(of: readonly CollectedSample[], field: 'tokens' | 'words'): number {
  return of.reduce((total, one) => total + one[field], 0)
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`
}

function columns(): Column<Row>[] {
  const column = (title: string, cell: (row: Row) => string): Column<Row> => ({ title, cell, align: 'right' })
  return [
    { title: 'predictor', cell: ({ predictor }) => predictor },
    column('Acc-5 tokens', (one) => percent(one.acc5_tokens)),
    column('Acc-15 tokens', (one) => percent(one.acc15_tokens)),
    column('MAE tokens', (one) => one.mae_tokens.toFixed(1)),
    column('Acc-5 words', (one) => percent(one.acc5_words)),
    column('Acc-15 words', (one) => percent(one.acc15_words)),
    column('MAE words', (one) => one.mae_words.toFixed(1)),
    column('MAE up to 200 tokens', (one) => one.mae_short_tokens.toFixed(1)),
  ]
}

function binColumns(): Column<BinScore>[] {
  const column = (title: string, cell: (row: BinScore) => string): Column<BinScore> => ({ title, cell, align: 'right' })
  return [
    column('from token', ({ from_tokens }) => `${from_tokens}`),
    column('answers', ({ answers }) => `${answers}`),
    column('Acc-5', ({ acc5_tokens }) => percent(acc5_tokens)),
    column('Acc-15', ({ acc15_tokens }) => percent(acc15_tokens)),
  ]
}
