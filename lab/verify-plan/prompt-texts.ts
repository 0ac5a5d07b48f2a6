/**
 * Prompts of a program's calls as text, of as many tokens as the trace says and with the prefixes that it says. The emulated
 * engine makes a token of every four bytes, so equal text is equal tokens.
 */
import { BYTES_PER_TOKEN } from '../../gpu-agent/src/fronts/local/emulated-text-model.ts'
import { appHead, type WorkloadProgram } from '../../simulator/workloads/index.ts'

/** In order of the calls. Throws RangeError for a program whose prompts repeat answers (`withoutAnswers` takes them out). */
export function promptTexts(program: WorkloadProgram): string[] {
  const texts: string[] = []
  for (const [index, call] of program.calls.entries()) {
    const same = call.same_prompt_as == null ? undefined : texts[call.same_prompt_as]
    const prefix = call.prefix_of == null ? undefined : texts[call.prefix_of]
    if (same !== undefined) {
      texts.push(same)
      continue
    }
    const shared_bytes = prefix === undefined ? 0 : call.shared_prefix_tokens * BYTES_PER_TOKEN
    if (prefix !== undefined && prefix.length < shared_bytes)
      throw new RangeError(`program ${program.id}: the prompt of call ${index} repeats an answer`)
    const head = appHead(program, call)
    const before = prefix === undefined ? filler(`head ${head.key}`, head.tokens) : prefix.slice(0, shared_bytes)
    const own_tokens = call.prompt_tokens - before.length / BYTES_PER_TOKEN
    texts.push(before + filler(`${program.id} ${index}`, own_tokens))
  }
  return texts
}

/** Text of so many tokens that no other `key` begins with. */
function filler(key: string, tokens: number): string {
  const base = [...key].reduce((hash, char) => Math.imul(hash ^ char.charCodeAt(0), 0x01000193), 0x811c9dc5)
  return Array.from({ length: tokens }, (_, index) => word(Math.imul(base + index, 0x9e3779b1) >>> 0)).join('')
}

/** Three letters and a space. */
function word(number: number): string {
  const letter = (of: number) => String.fromCharCode(97 + (of % 26))
  return `${letter(number)}${letter(Math.floor(number / 26))}${letter(Math.floor(number / 676))} `
}
