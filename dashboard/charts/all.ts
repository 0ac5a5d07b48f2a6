/** All charts, in a bundle of their own that is loaded with the first one that is shown. */
export { curve, trend } from './curves.ts'
export { fleets } from './fleets.ts'
