/**
 * Every command of package.json, and how the release check runs it: as documented, made short. `{data}` is a data directory
 * of the check's own, `{port}` a free port, `{out}` a folder that is removed afterwards.
 */
export type Coverage =
  /** In this order; one that fails does not stop the next. */
  | { run: readonly (readonly string[])[]; minutes_max: number }
  /** What runs it instead, or why it cannot run here. */
  | { elsewhere: string }

const NPM_TEST = { elsewhere: 'npm test runs it' }

export const COVERAGE: Readonly<Record<string, Coverage>> = {
  check: NPM_TEST,
  test: { elsewhere: 'CI runs it' },
  'test:loaded': { elsewhere: 'npm test, ten times' },
  'test:long': { elsewhere: 'CI runs it' },
  'test:fast': { elsewhere: 'a part of npm test' },
  'test:python-client': NPM_TEST,
  'test:page': { elsewhere: 'CI runs it: it needs a Chromium' },
  'bench:page': { elsewhere: 'by hand: it needs a Chromium, and ten minutes' },
  'test:vllm': { elsewhere: 'parts of npm test and of npm run test:long' },
  'test:vllm-core': NPM_TEST,
  'test:clients': { elsewhere: 'by hand: it installs 3.5 GB of clients' },
  'test:large': { run: [['--lines', '20000', '--run-s', '5', '--json', '{out}/large.json']], minutes_max: 3 },
  'test:packages': { elsewhere: 'by hand before a release: it installs every package with npm and pip' },
  release: { elsewhere: 'a unit test releases a copy of the repository; it commits and tags' },
  pack: { run: [['--out', '{out}/packages']], minutes_max: 3 },
  'bench:apps': {
    run: [['--planners', 'ours', '--applications', 'ensembling', '--lines', '8', '--json', '{out}/apps.json']],
    minutes_max: 12,
  },
  'bench:backup': {
    run: [['--megabytes', '10', '--programs', '10', '--json', '{out}/backup.json']],
    minutes_max: 4,
  },
  'bench:scale': {
    run: [['--engines', '4', '--agents', '2', '--per-shard', '2,4', '--seconds', '3', '--json', '{out}/scale.json']],
    minutes_max: 3,
  },
  'bench:memory': {
    run: [['--waves', '5', '--programs', '20', '--json', '{out}/memory.json']],
    minutes_max: 12,
  },
  'bench:offline': { run: [['--seconds', '10', '--json', '{out}/offline.json']], minutes_max: 4 },
  'bench:vllm': { elsewhere: 'by hand: 15 minutes with --quick' },
  dev: { elsewhere: 'npm test starts the same Worker; wrangler dev runs until it is stopped' },
  format: { elsewhere: 'npm run check does the same without writing' },
  'db:generate': { elsewhere: 'npm run check does the same without writing' },
  'page:pictures': { elsewhere: 'by hand when a view changes: it needs a Chromium' },
  'page:build': { elsewhere: 'npm run check does the same without writing' },

  up: { run: [['--detach', '--data-dir', '{data}', '--port', '{port}']], minutes_max: 4 },
  status: { run: [['--data-dir', '{data}']], minutes_max: 1 },
  demo: { run: [['--data-dir', '{data}']], minutes_max: 4 },
  cli: {
    run: [
      ['pools', '--data-dir', '{data}'],
      ['programs', 'list', 'local', '--data-dir', '{data}'],
      ['logs', '--level', 'warn', '--data-dir', '{data}'],
      ['backup', '{out}/backup', '--data-dir', '{data}'],
    ],
    minutes_max: 1,
  },
  'plain-questions': { run: [['--data-dir', '{data}', '--repeats', '1']], minutes_max: 5 },
  down: { run: [['--data-dir', '{data}']], minutes_max: 2 },
  reset: { run: [['--data-dir', '{data}', '--yes']], minutes_max: 1 },
  deploy: { run: [['--dry-run']], minutes_max: 3 },
  'bench:overhead': {
    run: [
      [
        ...['--rounds', '1', '--seconds', '1', '--programs', '500'],
        ...['--prompt-kb', '1', '--rates', '50', '--json', '{out}/overhead.json'],
      ],
    ],
    minutes_max: 15,
  },
  'verify:plan': { elsewhere: 'by hand: about half an hour; it plays in real time' },
  'gpu-check': { elsewhere: 'on a machine with a GPU: a quarter of an hour' },
  'bench:swap': {
    run: [
      ['--methods', 'staged-torch,copy-per-block-and-layer', '--json', '{out}/swap.json', '--plot', '{out}/swap.svg'],
    ],
    minutes_max: 3,
  },
  'bench:lengths': { run: [['--prompts', '10', '--json', '{out}/lengths.json']], minutes_max: 5 },
  'bench:tools': {
    run: [['--programs', '2', '--tools', '1', '--longest-s', '2', '--slots', '4', '--json', '{out}/tools.json']],
    minutes_max: 4,
  },
  'bench:engine': { run: [['--repetitions', '1', '--json', '{out}/engine.json']], minutes_max: 5 },
  'bench:front': { run: [['--seeds', '1', '--programs', '12', '--json', '{out}/front.json']], minutes_max: 5 },
  'bench:policies': {
    run: [
      [
        '--workload',
        'chats',
        '--policies',
        'fcfs,plas',
        '--seeds',
        '1',
        '--programs',
        '8',
        '--json',
        '{out}/policies.json',
      ],
    ],
    minutes_max: 8,
  },
  calibrate: {
    run: [['--out', '{out}/profile.json', '--costs', '{out}/costs.json', '--context-tokens', '512']],
    minutes_max: 5,
  },
  simulate: {
    run: [
      ['run', '--workload', 'mixed', '--policy', 'fcfs,plas', '--rate', '0.5', '--programs', '50'],
      ['plan', '--application', 'examples/applications/chain-summary.json', '--gantt', '{out}/plan.svg'],
      ['run', '--workload', 'sharegpt', '--front', 'engine,queue', '--policy', 'fcfs,plas', '--programs', '30'],
      [
        ...['quota', '--quota', 'requests=60/min', '--workload', 'sharegpt', '--rate', '0.5', '--programs', '30'],
        ...['--seed', '1', '--p95-s', '120', '--times', '1..4', '--plot', '{out}/quota.svg'],
      ],
    ],
    minutes_max: 3,
  },
  evaluate: {
    run: [
      ['--quick', '--figure', '2', '--out', '{out}/report', '--cache', '{out}/runs'],
      ['--paper', 'samullm', '--quick', '--out', '{out}/samullm'],
    ],
    minutes_max: 5,
  },
  'evaluate:page': { run: [['--in', 'docs/evaluation', '--out', '{out}/evaluation.html']], minutes_max: 2 },
  docs: { run: [['--build', '--out', '{out}/docs']], minutes_max: 3 },
  identity: { run: [[]], minutes_max: 3 },
  fuzz: { run: [['--seconds', '10']], minutes_max: 3 },
  'chaos:streams': { run: [['--broken', '60', '--json', '{out}/streams.json']], minutes_max: 4 },
  chaos: { run: [['--minutes', '1', '--seed', '1', '--log', '{out}/chaos.jsonl']], minutes_max: 6 },
}
