/** Part of `npm run check`: plain words and short sentences in the documentation and in the messages of the product. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { allPages } from './docs-site/pages.ts'
import { proseOf } from './language/markdown-text.ts'
import { messagesOf } from './language/message-text.ts'
import { type Hit, hitsIn } from './language/wording.ts'
import { ROOT } from './testbed/repository.ts'

/** What users and operators read. */
const MESSAGES = ['cli', 'ops', 'src', 'gpu-agent/src', 'clients/typescript/src', 'lab/packages/bin']
/** Written by `npm run evaluate`: lists of figures. */
const GENERATED = /^docs\/evaluation\//
const NO_MESSAGES = /\.test\.ts$|\.gen\.ts$|\/testing\//

const read = (file: string): string => readFileSync(path.join(ROOT, file), 'utf8')
const sources = execFileSync('git', ['ls-files', ...MESSAGES], { cwd: ROOT })
  .toString()
  .split('\n')
const hits = [
  ...allPages()
    .filter((file) => !GENERATED.test(file))
    .map((file) => ({ file, hits: proseOf(read(file)) })),
  ...sources
    .filter((file) => file.endsWith('.ts') && !NO_MESSAGES.test(file))
    .map((file) => ({ file, hits: messagesOf(file, read(file)) })),
].flatMap(({ file, hits: prose }) =>
  prose.flatMap(({ text, line, cell }) => hitsIn(text, line, cell).map((hit) => ({ file, hit }))),
)
for (const { file, hit } of hits) console.log(lineOf(file, hit))
if (hits.length > 0) {
  console.error(`${hits.length} hits. Use plain words and short sentences: lab/language/wording.ts has the list.`)
  process.exit(1)
}

function lineOf(file: string, { line, text, reason }: Hit): string {
  return `${file}:${line}: ${JSON.stringify(text)}: ${reason}`
}
