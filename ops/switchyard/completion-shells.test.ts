/** Completion in zsh and fish, each driven as at a terminal. test/system/terminal.test.ts drives bash. */
import { execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, it, type TestContext } from 'vitest'

const folder = mkdtempSync(path.join(tmpdir(), 'switchyard-completion-'))
const program = path.join(import.meta.dirname, 'main.ts')
writeFileSync(path.join(folder, 'switchyard'), `#!/bin/sh\nexec "${process.execPath}" "${program}" "$@"\n`, {
  mode: 0o755,
})
writeFileSync(path.join(folder, 'a-file.yaml'), '')
afterAll(() => rmSync(folder, { recursive: true }))

const env = { ...process.env, PATH: `${folder}:${process.env.PATH}`, HOME: folder, TERM: 'dumb' }

function needs(shell: string, context: TestContext): void {
  try {
    execFileSync(shell, ['--version'], { stdio: 'ignore' })
  } catch {
    context.skip(`${shell} is not installed here. Install it, for example with \`apt-get install ${shell}\``)
  }
}

async function run(shell: string, ...args: string[]): Promise<string[]> {
  const { stdout } = await promisify(execFile)(shell, args, { env, cwd: folder })
  return stdout.trimEnd().split('\n')
}

it('completes in fish: commands, verbs, flags, values and files', async (context) => {
  needs('fish', context)
  const lines = ['ni', 'keys re', 'top --so', 'top --sort st', 'apply --file a']
  const asked = lines.map((line) => `complete -C "switchyard ${line}"`).join('; ')
  const shown = await run('fish', '--no-config', '-c', `switchyard completion fish | source; ${asked}`)
  expect(shown.map((line) => line.split('\t')[0])).toEqual(['nice', 'revoke', '--sort', 'started', 'a-file.yaml'])
  expect(shown[0]).toContain('weight among the tenant’s own')
})

/** A shell in a pseudo-terminal. Ctrl-X Ctrl-T writes the text of its command line to a file. */
const ZSH = `zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'autoload -U compinit; compinit -u -d dump; source <(switchyard completion zsh)'
zpty -w shell 'write-line() { print -r -- "$BUFFER" >> lines; BUFFER= }; zle -N write-line; bindkey "^X^T" write-line; print ready >> lines'
wait-for() { while [[ ! -e lines || $(wc -l < lines) -lt $1 ]] { zpty -r -t shell junk; sleep 0.05 } }
wait-for 1
n=1
for line in ni 'keys re' 'top --so' 'top --sort st' 'apply --file a-f'; do
  zpty -w -n shell "switchyard $line"$'\\t\\x18\\x14'
  n=$((n + 1))
  wait-for $n
done
zpty -d shell
tail -n +2 lines`

it('completes in zsh: commands, verbs, flags, values and files', async (context) => {
  needs('zsh', context)
  const shown = await run('zsh', '-f', '-c', ZSH)
  expect(shown.map((line) => line.trimEnd())).toEqual(
    ['nice', 'keys revoke', 'top --sort', 'top --sort started', 'apply --file a-file.yaml'].map(
      (line) => `switchyard ${line}`,
    ),
  )
})
