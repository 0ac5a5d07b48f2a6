/**
 * What a class knows of the tools that its programs call between their calls: how long each takes, how long its answers are,
 * and what follows in which situation (situation.ts).
 *
 * Bounded, mergeable and aged. Models and clients choose the names, so a program may name a tool that no other ever names.
 * At most TOOLS_PER_CLASS_MAX tools are known by name, the others together. While there is room a tool gets a place at its
 * first use. After that it takes the place of the tool with the fewest uses of late, once it has had more of them.
 */
import { TOOL_SITUATIONS_MAX, TOOLS_PER_CLASS_MAX } from '../../protocol/index.ts'
import type { ProgramTurn, TurnTool } from './program-turn.ts'
import { ANY, ENDS, FIRST, named, nameOf, OTHER, placeOf, SAME, Situation, situationKey, UNNAMED } from './situation.ts'
import { ToolSketch } from './tool-sketch.ts'

/** Names without a place whose uses are counted. The one used longest ago is forgotten first. */
export const CANDIDATES_MAX = 64
/** A tool that was used less often than this takes no other's place, so names that are used once displace nothing. */
const USES_TO_DISPLACE = 2
/** Uses of late: one counts for half after so many uses of any tool. */
const HALF_USES = 1024

interface KnownTool {
  readonly sketch: ToolSketch
  /** Uses of late, as of `at` uses of all tools. */
  recent: number
  at: number
}

export class ToolBook {
  /** Of all tools. */
  readonly all = new ToolSketch()
  unnamed = new ToolSketch()
  other = new ToolSketch()
  readonly #tools = new Map<string, KnownTool>()
  readonly #candidates = new Map<string, number>()
  /** The one that a call was in longest ago first. */
  readonly #situations = new Map<string, Situation>()

  get isEmpty(): boolean {
    return this.#situations.size === 0
  }

  /** Names of the tools that have a place. */
  names(): string[] {
    return [...this.#tools.keys()]
  }

  /** Null: no tool of this name has a place. */
  tool(name: string): ToolSketch | null {
    return this.#tools.get(name)?.sketch ?? null
  }

  /** `tool`: a key of situation.ts that is no outcome. */
  sketchOf(tool: string): ToolSketch | null {
    const name = nameOf(tool)
    if (name !== null) return this.tool(name)
    return tool === UNNAMED ? this.unnamed : this.other
  }

  situation(last: string, place: number | null): Situation | null {
    return this.#situations.get(situationKey(last, place)) ?? null
  }

  situations(): Situation[] {
    return [...this.#situations.values()]
  }

  /** The key of what came before a call. */
  lastKey(position: number, last: string | null): string {
    return position === 0 ? FIRST : this.#keyOf(last)
  }

  /** Of several tools at once the first is the one that follows. */
  add({ position, last, tools, output_tokens }: ProgramTurn): void {
    for (const tool of tools) {
      if (tool.name !== null) this.#used(tool.name)
      this.all.add(tool)
      this.sketchOf(this.#keyOf(tool.name))?.add(tool)
    }
    const before = this.lastKey(position, last)
    const place = placeOf(position)
    const key = this.#outcome(position, last, tools[0])
    this.#at(ANY, null).add(key, output_tokens)
    this.#at(before, null).add(key, output_tokens)
    this.#at(before, place).add(key, output_tokens)
  }

  /** A tool that another book knows by name, with its uses of late. Of more than there are places the rest joins the others. */
  mergeTool(name: string, sketch: ToolSketch): void {
    const known = this.#tools.get(name)
    if (known !== undefined) {
      known.sketch.merge(sketch)
      known.recent += sketch.duration_us.weight
    } else if (this.#tools.size < TOOLS_PER_CLASS_MAX) {
      const own = new ToolSketch()
      own.merge(sketch)
      this.#tools.set(name, { sketch: own, recent: sketch.duration_us.weight, at: this.all.uses })
    } else this.other.merge(sketch)
  }

  merge(book: ToolBook): void {
    this.all.merge(book.all)
    this.unnamed.merge(book.unnamed)
    this.other.merge(book.other)
    for (const name of book.names()) this.mergeTool(name, book.tool(name) as ToolSketch)
    for (const situation of book.situations()) this.mergeSituation(situation)
  }

  /** Tools that have no place here count among the others. */
  mergeSituation({ last, place, next, output_tokens }: Situation): void {
    const here = new Situation(this.#placed(last), place)
    for (const [key, count] of next) here.count(this.#placed(key), count)
    here.output_tokens.merge(output_tokens)
    this.#at(here.last, place).merge(here)
  }

  #outcome(position: number, last: string | null, tool: TurnTool | undefined): string {
    if (tool === undefined) return ENDS
    return tool.name !== null && position > 0 && tool.name === last ? SAME : this.#keyOf(tool.name)
  }

  #placed(key: string): string {
    const name = nameOf(key)
    return name === null || this.#tools.has(name) ? key : OTHER
  }

  #keyOf(name: string | null): string {
    if (name === null) return UNNAMED
    return this.#tools.has(name) ? named(name) : OTHER
  }

  #recentOf({ recent, at }: KnownTool): number {
    return recent * 2 ** ((at - this.all.uses) / HALF_USES)
  }

  #used(name: string): void {
    const known = this.#tools.get(name)
    if (known !== undefined) {
      known.recent = this.#recentOf(known) + 1
      known.at = this.all.uses
      return
    }
    const uses = (this.#candidates.get(name) ?? 0) + 1
    this.#candidates.delete(name)
    if (this.#tools.size >= TOOLS_PER_CLASS_MAX && !this.#displaceFor(uses)) {
      this.#candidates.set(name, uses)
      const [oldest] = this.#candidates.keys()
      if (this.#candidates.size > CANDIDATES_MAX) this.#candidates.delete(oldest as string)
      return
    }
    this.#tools.set(name, { sketch: new ToolSketch(), recent: uses, at: this.all.uses })
  }

  /** False: all tools have had as many uses. */
  #displaceFor(uses: number): boolean {
    if (uses < USES_TO_DISPLACE) return false
    let fewest: string | null = null
    let least = uses
    for (const [name, known] of this.#tools) {
      const recent = this.#recentOf(known)
      if (recent >= least) continue
      fewest = name
      least = recent
    }
    if (fewest === null) return false
    this.other.merge(this.tool(fewest) as ToolSketch)
    this.#tools.delete(fewest)
    this.#forgetName(named(fewest))
    return true
  }

  #forgetName(key: string): void {
    for (const [at, situation] of this.#situations) {
      situation.renamed(key, OTHER)
      if (situation.last !== key) continue
      this.#situations.delete(at)
      this.#at(OTHER, situation.place).merge(situation)
    }
  }

  #at(last: string, place: number | null): Situation {
    const key = situationKey(last, place)
    const situation = this.#situations.get(key) ?? new Situation(last, place)
    this.#situations.delete(key)
    this.#situations.set(key, situation)
    const [oldest] = this.#situations.keys()
    if (this.#situations.size > TOOL_SITUATIONS_MAX) this.#situations.delete(oldest as string)
    return situation
  }
}
