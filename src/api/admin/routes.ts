/** /admin/v1: the operator's routes, behind ADMIN_KEY. Every change leaves a row in the audit table. */
import { type AdminScope, limitBody, requireAdmin, router } from '../boundary.ts'
import { agentAdminRoutes } from './agents.ts'
import { tenantApplicationRoutes } from './applications.ts'
import { auditRoutes } from './audit.ts'
import { classRoutes } from './classes.ts'
import { deadLetterRoutes } from './dead-letters.ts'
import { hostRoutes } from './hosts.ts'
import { keyRoutes } from './keys.ts'
import { modelRoutes } from './models.ts'
import { poolRoutes } from './pools.ts'
import { tenantProgramRoutes } from './programs.ts'
import { regionRoutes } from './regions.ts'
import { spendAdminRoutes } from './spend.ts'
import { tenantRoutes } from './tenants.ts'
import { tenantTraceRoutes } from './trace.ts'
import { tenantUsageRoutes } from './usage.ts'

export const ADMIN_BODY_BYTES_MAX = 16 * 1024

export const adminRoutes = router<AdminScope>()
adminRoutes.use('/admin/v1/*', requireAdmin, limitBody(ADMIN_BODY_BYTES_MAX))
for (const routes of [
  tenantRoutes,
  keyRoutes,
  tenantProgramRoutes,
  tenantTraceRoutes,
  tenantApplicationRoutes,
  tenantUsageRoutes,
  spendAdminRoutes,
  modelRoutes,
  regionRoutes,
  agentAdminRoutes,
  poolRoutes,
  hostRoutes,
  classRoutes,
  auditRoutes,
  deadLetterRoutes,
]) {
  adminRoutes.route('/', routes)
}
