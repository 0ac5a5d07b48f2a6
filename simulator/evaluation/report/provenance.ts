/** Where a report comes from: the command, the code, the machine and the day. */
import { arch, availableParallelism, cpus, platform } from 'node:os'
import { type Figure, type PaperName, type Seeds, seedsOf } from '../figure.ts'
import { ABLATION_SEEDS, type Options } from '../options.ts'

/** Those that play all seeds. */
const MAIN_FIGURES: Readonly<Record<PaperName, string>> = {
  autellix: 'Mixed in figures 12 and 13 and the headline goals',
  lamps: 'figures 6, 7 and 8',
}

export interface Provenance {
  paper: PaperName
  command: string
  seeds: Seeds
  quick: boolean
  code_version: string
  /** Of the simulating machine: figures do not depend on it. */
  machine: string
  date: string
}

export function provenance({ paper, argv, seeds, quick }: Options, code_version: string): Provenance {
  // The figures do not depend on where things go and how long it may take.
  const shown = withoutFlags(argv, ['--out', '--json', '--cache', '--minutes', '--threads'])
  return {
    paper,
    command: ['npm run evaluate', ...(shown.length === 0 ? [] : ['--', ...shown])].join(' '),
    seeds,
    quick,
    code_version,
    machine: `${availableParallelism()} × ${cpus()[0]?.model.trim() ?? arch()}, ${platform()}, Node ${process.versions.node}`,
    date: new Date().toISOString().slice(0, 10),
  }
}

function withoutFlags(argv: readonly string[], flags: readonly string[]): string[] {
  return argv.filter((word, at) => {
    const before = argv[at - 1]
    const [flag = ''] = word.split('=')
    return !flags.includes(flag) && !(before !== undefined && flags.includes(before))
  })
}

/** Plays this figure alone. */
export function figureCommand({ paper, quick, seeds, command }: Provenance, figure: Figure): string {
  if (command.split('--figure ')[1]?.split(' ')[0] === figure.id) return command
  const played = seedsOf(figure, seeds)
  const ablations = figure.every_seed || played.length <= ABLATION_SEEDS ? '' : ` --ablation-seeds ${played.length}`
  const of = paper === 'autellix' ? '' : ` --paper ${paper}`
  return `npm run evaluate --${of} --figure ${figure.id} --seed ${played.join(',')}${ablations}${quick ? ' --quick' : ''}`
}

export function seedsText({ paper, seeds }: Pick<Provenance, 'paper' | 'seeds'>): string {
  const { all, ablations } = seeds
  const fewer =
    ablations < all.length
      ? ` (${MAIN_FIGURES[paper]}; ablations: ${all.slice(0, ablations).join(', ')}; where fewer are played the figure says so)`
      : ''
  return `${all.length === 1 ? 'Seed' : 'Seeds'} ${all.join(', ')}${fewer}`
}
