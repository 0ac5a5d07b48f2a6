/**
 * What a program, or a class of programs, weighs within its tenant. It changes the order among the tenant's own programs,
 * never the tenant's share of seats. It is set by the tenant or the operator at the control plane and reaches engines in
 * tickets.
 */
import { z } from 'zod'

export const PROGRAM_WEIGHT_MIN = 0.01
export const PROGRAM_WEIGHT_MAX = 100
/** Of a program's weight and its class's. */
export const PROGRAM_WEIGHT_PRODUCT_MAX = PROGRAM_WEIGHT_MAX * PROGRAM_WEIGHT_MAX
/** Classes of a tenant that may weigh other than 1. */
export const CLASS_WEIGHTS_MAX = 64

export const ProgramWeight = z.number().min(PROGRAM_WEIGHT_MIN).max(PROGRAM_WEIGHT_MAX)
