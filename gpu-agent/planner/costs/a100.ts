/** Costs of the SamuLLM authors' models on A100-80GB; the file has their provenance and errors. */
import FILE from './a100-costs.json' with { type: 'json' }
import { CostsFile } from './model-costs.ts'

export const A100_COSTS = CostsFile.parse(FILE)
