/** What zsh and fish make of the completion: each is driven as at a terminal. Bash is driven in test/system/terminal.test.ts. */
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
    context.skip(`${shell} is not installed here: \`apt-get install ${shell}\` or the like`)
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
  expect(shown[0]).toContain('what a program weighs')
})

/** A shell in a pseudo-terminal, whose keys write out what stands on its line. */
const ZSH = `zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'autoload -U compinit; compinit -u -d dump; source <(switchyard completion zsh)'
zpty -w shell 'tell() { print -r -- "$BUFFER" >> told; BUFFER= }; zle -N tell; bindkey "^X^T" tell; print ready >> told'
lines() { while [[ ! -e told || $(wc -l < told) -lt $1 ]] { zpty -r -t shell junk; sleep 0.05 } }
lines 1
n=1
for line in ni 'keys re' 'top --so' 'top --sort st' 'apply --file a-f'; do
  zpty -w -n shell "switchyard $line"$'\\t\\x18\\x14'
  n=$((n + 1))
  lines $n
done
zpty -d shell
tail -n +2 told`

it('completes in zsh: commands, verbs, flags, values and files', async (context) => {
  needs('zsh', context)
  const shown = await run('zsh', '-f', '-c', ZSH)
  expect(shown.map((line) => line.trimEnd())).toEqual(
    ['nice', 'keys revoke', 'top --sort', 'top --sort started', 'apply --file a-file.yaml'].map(
      (line) => `switchyard ${line}`,
    ),
  )
})
