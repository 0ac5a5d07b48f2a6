/**
 * What a shell runs on Tab: it asks `switchyard __complete WORD… CURRENT`, as clients built with Cobra do, so that one
 * piece of code (completion.ts) serves every shell. A line is a word, or a word, a tab and what it means. The line
 * `:files` alone asks for names of files.
 */
export const COMPLETION_SHELLS = ['bash', 'zsh', 'fish'] as const
export type CompletionShell = (typeof COMPLETION_SHELLS)[number]

export const FILES = ':files'

const BASH = `# bash completion of switchyard. Add to ~/.bashrc: source <(switchyard completion bash)
_switchyard() {
  local current="\${COMP_WORDS[COMP_CWORD]}" line
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ "$line" == "${FILES}" ]]; then
      while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$current")
    else
      COMPREPLY+=("\${line%%$'\\t'*}")
    fi
  done < <(switchyard __complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o filenames -F _switchyard switchyard`

const ZSH = `#compdef switchyard
# zsh completion of switchyard. Add to ~/.zshrc after compinit: source <(switchyard completion zsh)
_switchyard() {
  local line
  local -a found
  while IFS= read -r line; do
    if [[ "$line" == "${FILES}" ]]; then
      _files
    else
      line="\${line//:/\\\\:}"
      found+=("\${line/$'\\t'/:}")
    fi
  done < <(switchyard __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)
  (( \${#found} )) && _describe -V switchyard found
}
compdef _switchyard switchyard`

const FISH = `# fish completion of switchyard. Write it to ~/.config/fish/completions/switchyard.fish
function __switchyard_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in (switchyard __complete $words[2..-1] 2>/dev/null)
        if test "$line" = "${FILES}"
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c switchyard -f -k -a '(__switchyard_complete)'`

export function completionScript(shell: CompletionShell): string {
  return { bash: BASH, zsh: ZSH, fish: FISH }[shell]
}
