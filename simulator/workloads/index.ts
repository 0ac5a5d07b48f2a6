/** What is played: programs drawn from a workload's profile, or read from a trace. */
export { beyondContext } from './context.ts'
export { drawWorkload, WORKLOAD_NAMES, type WorkloadName } from './draw.ts'
export { type AppHead, appHead, type ProgramClient, type WorkloadCall, type WorkloadProgram } from './program.ts'
export { readTrace, TraceError } from './read-trace.ts'
