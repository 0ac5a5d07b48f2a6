/**
 * Seconds to load a model on 1, 2 and 4 A100s, weights and communication: measured by the SamuLLM authors (puddingfjz/vllm @ de1677dc,
 * benchmarks/model_initcost_database.py, Apache-2.0; of several measurements the last one, which their evaluation used). The paper's range of
 * 11 to 47 s is that of the ensembling models on one GPU.
 */
export const LOADING_S: Readonly<Record<string, Readonly<Record<number, number>>>> = {
  'vicuna-13b-v1.5': { 1: 29.98, 2: 49.63, 4: 43.99 },
  'oasst-sft-4-pythia-12b-epoch-3.5': { 1: 26.96, 2: 51.61, 4: 44.78 },
  'alpaca-13b': { 1: 47.47, 2: 70.59, 4: 65.2 },
  'baize-v2-13b': { 1: 37.31, 2: 58.33, 4: 51.68 },
  'koala-13B-HF': { 1: 28.25, 2: 49.44, 4: 44.25 },
  'dolly-v2-12b': { 1: 28.23, 2: 51.67, 4: 45.23 },
  'mpt-7b-chat': { 1: 18.35, 2: 39.72, 4: 34.05 },
  'chatglm3-6b': { 1: 11.53, 2: 31.61, 4: 26.6 },
  'stablelm-tuned-alpha-7b': { 1: 31.57, 2: 58.91, 4: 51.37 },
  'Llama-2-7b-hf': { 1: 8.03, 2: 20.75, 4: 41.73 },
  'Llama-2-13b-hf': { 1: 10.39, 2: 22.31, 4: 43.55 },
  'Llama-2-70b-chat-hf': { 2: 62.21, 4: 45.22 },
  'Mixtral-8x7B-Instruct-v0.1': { 2: 51.64, 4: 38.02 },
  'WizardLM-13B-V1.2': { 1: 27.71, 2: 50.49, 4: 42.91 },
  'CodeLlama-34b-Instruct-hf': { 1: 29.7, 2: 46.75, 4: 39.22 },
  'Mistral-7B-Instruct-v0.2': { 1: 11.72, 2: 29.93, 4: 26.7 },
}

/**
 * For each further replica that loads at the same time. From the paper's 32 s for chatglm3-6b with 1,000 requests of at most 512 tokens on eight GPUs,
 * which are 20.2 s with the loading time of one replica. Its 67 s for 10,000 requests then check it.
 */
export const LOADING_PER_REPLICA_S = 1.69
