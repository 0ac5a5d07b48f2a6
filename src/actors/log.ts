/** One JSON line per failure that the caller survives; Workers' logs collect it. */
export function logFailure(
  event: string,
  error: unknown,
  fields: Readonly<Record<string, string | number>> = {},
): void {
  console.error(JSON.stringify({ event, error: error instanceof Error ? error.message : String(error), ...fields }))
}
