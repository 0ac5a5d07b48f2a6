/** How many lines of an input one event of an actor checks: some 50 ms of CPU. */
export const SLICE_BYTES = 4 * 1024 * 1024
export const SLICE_LINES = 10_000
