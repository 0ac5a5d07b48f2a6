/**
 * Imported by an entry point before it loads Drizzle. Node 24 parses all `exports` of a package for each module that it resolves
 * within it, and Drizzle's are 170 kB and some 110 modules: half a second of CPU for each process. A relative import needs none of it.
 */
import { registerHooks } from 'node:module'

const DRIZZLE = '/node_modules/drizzle-orm/'

registerHooks({
  resolve: (specifier, context, next) => {
    const parent = context.parentURL
    const is_relative = parent?.includes(DRIZZLE) && specifier.startsWith('.') && specifier.endsWith('.js')
    if (!is_relative) return next(specifier, context)
    return { url: new URL(specifier, parent).href, format: 'module', shortCircuit: true }
  },
})
