/** The pages of the documentation site and their order. Pages that no section names come last, so none is left out. */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { ROOT } from '../testbed/repository.ts'

export interface Section {
  title: string
  pages: readonly string[]
}

const SECTIONS: readonly Section[] = [
  {
    title: 'Start',
    pages: [
      ...['README.md', 'docs/quickstart-app.md', 'docs/quickstart-operator.md', 'docs/quickstart-research.md'],
      ...['docs/install.md', 'docs/local.md', 'docs/commands.md', 'docs/features.md'],
    ],
  },
  {
    title: 'Use it',
    pages: [
      ...['docs/api.md', 'docs/anthropic.md', 'docs/clients.md', 'docs/client-libraries.md', 'docs/identity.md'],
      ...['docs/budgets.md'],
      ...['docs/batches.md', 'docs/applications.md'],
      ...['clients/python/README.md', 'clients/typescript/README.md'],
    ],
  },
  {
    title: 'Operate it',
    pages: [
      ...[
        'docs/page.md',
        'docs/terminal.md',
        'docs/self-host.md',
        'docs/deploy.md',
        'docs/upgrade.md',
        'docs/admin.md',
        'docs/observability.md',
      ],
      ...['docs/faults.md', 'docs/cost.md', 'docs/scale.md', 'gpu-agent/README.md'],
    ],
  },
  {
    title: 'Engines',
    pages: [
      ...[
        'docs/vllm.md',
        'docs/any-engine.md',
        'docs/embedded-engine.md',
        'docs/scripted-engine.md',
        'docs/kv-swap.md',
      ],
      ...['docs/vllm-plugin.md', 'gpu-agent/vllm/README.md'],
    ],
  },
  { title: 'How it works', pages: ['docs/architecture.md', 'docs/learned-policy.md', 'docs/lamps.md'] },
  {
    title: 'Figures',
    pages: [
      ...['docs/benchmarks.md', 'docs/simulator.md', 'docs/traces.md', 'docs/engine-profiles.md'],
      ...[
        'docs/evaluation/evaluation.md',
        'docs/evaluation/lamps/evaluation.md',
        'docs/evaluation/learned/evaluation.md',
        'docs/evaluation/learned-knowledge/evaluation.md',
        'docs/evaluation/samullm/evaluation.md',
        'docs/plain-questions.md',
      ],
    ],
  },
]
const REST = 'More'
/** Readmes of packages repeat what the site says. */
const NO_PAGE = /^lab\//

/** Every Markdown file of the repository that is a page, tracked or about to be. */
export function allPages(): string[] {
  const listed = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '*.md'], { cwd: ROOT })
  const files = listed
    .toString()
    .split('\n')
    .filter((file) => file !== '' && !NO_PAGE.test(file))
  return [...new Set(files)].filter((file) => existsSync(path.join(ROOT, file))).sort()
}

/** Sections with the pages that there are. */
export function sections(pages: readonly string[] = allPages()): Section[] {
  const named = new Set(SECTIONS.flatMap((section) => section.pages))
  const rest = pages.filter((page) => !named.has(page))
  return [...SECTIONS, { title: REST, pages: rest }]
    .map(({ title, pages: own }) => ({ title, pages: own.filter((page) => pages.includes(page)) }))
    .filter(({ pages: own }) => own.length > 0)
}

/** The first heading. */
export function titleOf(markdown: string): string {
  return /^# (.+)$/m.exec(markdown)?.[1]?.replaceAll('`', '') ?? 'Untitled'
}
