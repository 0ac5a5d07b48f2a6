/** What a reader must know before the figures: how latency and throughput are read, and the settings that all figures share. */
import { PROGRAM_LEVELS } from '../../../gpu-agent/engine/order/policies/levels/levels.ts'
import { MLFQ_DEFAULTS } from '../../../gpu-agent/engine/order/policies/mlfq/mlfq.ts'
import { RR_DEFAULTS } from '../../../gpu-agent/engine/order/policies/rr/rr.ts'
import type { PaperName } from '../figure.ts'
import { HISTORY } from '../lamps/setting.ts'
import { SWAP_TOKENS } from '../runs/play.ts'
import { DECISION_US, REPORT_MS } from '../runs/run-spec.ts'
import { STEPS_PER_DECISION } from '../systems.ts'

const US_PER_S = 1e6
const { wall } = MLFQ_DEFAULTS
const { modelled } = PROGRAM_LEVELS

const AUTELLIX: readonly string[] = [
  "Autellix's evaluation (§3, §6) on the simulator, which runs the scheduler, the policies, the balancers and the process table that serve " +
    'traffic, on a virtual clock with step times fitted to logs of A100s. Programs are drawn from profiles of the workloads.',
  'Latency is program token latency, a program’s response ÷ the tokens that it generated. Throughput at a latency is the highest rate at which ' +
    'its mean is within an SLO. It is interpolated linearly between two tested rates; where latency jumps between them, rates in between are played ' +
    'until they differ by at most 3 %. ± is a 95 % confidence interval over seeds (Student’s t). ' +
    'Every sentence is generated from the runs; each figure lists where ours loses.',
  'vLLM is FCFS without prefix cache and chunked prefill, deciding at every step; vLLM-opt is FCFS with both. MLFQ, round robin (RR), PLAS and ATLAS have ' +
    `both too and may swap. All but vLLM decide once in ${STEPS_PER_DECISION} steps. MLFQ and RR are charged wall time of steps and queue calls, as in the paper: ` +
    `${wall.levels} levels, a first quantum of ${wall.first_quantum_us / US_PER_S} s, each twice the one before, and β = ${wall.promotion_ratio}; a turn of RR is ` +
    `${RR_DEFAULTS.wall.quantum_us / US_PER_S} s. PLAS and ATLAS queue programs by their own work, as engines that serve do: a first quantum of ` +
    `${modelled.first_quantum_us / 1000} ms, each ${modelled.quantum_ratio} times the one before, and β = ${modelled.promotion_ratio}. The paper gives neither quanta nor β. A decision costs ${DECISION_US} µs and engines report their queues every ` +
    `${REPORT_MS} ms where a figure does not say otherwise. Swapped KV goes to 1.2 TB of host memory, as in the paper's §6.5.1: ` +
    `${SWAP_TOKENS['a100-8b'] / 1e6} million tokens of the 8B model, ${SWAP_TOKENS['a100-70b-tp4'] / 1e6} of the 70B, ${SWAP_TOKENS['a100-180b-tp8'] / 1e6} of Falcon-180B. ` +
    'A seat is a place in the running batch (vLLM: max_num_seqs).',
]

const LAMPS: readonly string[] = [
  'LAMPS’ evaluation (§6) on the simulator, which runs the scheduler, the policies and the handling of contexts that embedded engines run, on a virtual ' +
    'clock with step times fitted to logs of A100s, and 40 GB of memory as in the paper. A request of the paper is a program here, its segments are calls.',
  'vLLM discards the contexts of programs whose tools run and takes a call that comes back for a new one. InferCept serves programs in the order in which they ' +
    'came, and preserves, discards or swaps when a call reaches its tool. LAMPS decides before a call runs and orders calls by their memory over time. ' +
    'learned-memory (ours) also counts the memory that a program is expected to take after the call. Oracle: the true output and time of the tool are ' +
    `known, as in the paper. Learned: forecasts of the code that serves (docs/lamps.md), which has seen ${HISTORY} programs of another seed. vLLM and InferCept always have the truth. ` +
    'LAMPS and learned-memory handle contexts as InferCept does, with the same swap budget, so they differ in when they decide and in their order. No pin stalls a call: under ' +
    'pressure the context that is needed last is swapped or given up, in every system.',
  '± is a 95 % confidence interval over seeds (Student’s t). Every sentence is generated from the runs; each figure lists where ours loses. ' +
    `A decision costs ${DECISION_US} µs at each iteration. Swapped KV has 200 GB of host memory: ${SWAP_TOKENS['gpt-j-6b-40gb'] / 1000} thousand tokens of GPT-J 6B, ` +
    `${SWAP_TOKENS['vicuna-13b-40gb'] / 1000} of Vicuna 13B.`,
]

export const INTRODUCTIONS: Readonly<Record<PaperName, readonly string[]>> = { autellix: AUTELLIX, lamps: LAMPS }
