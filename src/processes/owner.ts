/**
 * Which of several processes has an object. Every process computes the same from the object's id, which is a hash of its
 * name, so objects are spread evenly and none needs a directory. ops/workerd/spread-objects.ts puts their files there.
 */

/** As many as a large machine has cores. */
export const PROCESSES_MAX = 64
const ID_CHARS = 8
const HEX = 16

/** `id`: of a Durable Object, in hexadecimal. From 0 to before `processes`. */
export function ownerOf(id: string, processes: number): number {
  return Number.parseInt(id.slice(0, ID_CHARS), HEX) % processes
}
