import { describe, expect, it } from 'vitest'
import {
  CANDIDATES_MAX,
  CLASS_IDLE_MS,
  CLASSES_PER_TENANT_MAX,
  TENANT_CLASS,
  TenantClasses,
  TenantClassRows,
} from './tenant-classes.ts'

const FOR_TENANT = { class: TENANT_CLASS, displaced: null }

/** A tenant whose classes have all had so many ends. */
function full(ends = 1): TenantClasses {
  const classes = new TenantClasses()
  for (let at = 0; at < CLASSES_PER_TENANT_MAX; at++) {
    for (let end = 0; end < ends; end++)
      expect(classes.ended(`c${at}`, 0)).toEqual({ class: `c${at}`, displaced: null })
  }
  return classes
}

describe('the classes of a tenant', () => {
  it('have a place from their first end, up to a bound', () => {
    const classes = full()
    expect(classes.size).toBe(CLASSES_PER_TENANT_MAX)
    expect(classes.ended('one more', 0)).toEqual(FOR_TENANT)
    expect(classes.ended('c0', 0)).toEqual({ class: 'c0', displaced: null })
  })

  it('invented for each program get no place, however many there are', () => {
    const classes = full()
    for (let at = 0; at < 3 * CANDIDATES_MAX; at++) expect(classes.ended(`invented-${at}`, at)).toEqual(FOR_TENANT)
    expect(classes.size).toBe(CLASSES_PER_TENANT_MAX)
  })

  it('of which programs go on ending take the place of one with fewer ends', () => {
    const classes = full(2)
    classes.ended('c1', 0)
    expect(classes.ended('used', 0)).toEqual(FOR_TENANT)
    expect(classes.ended('used', 0)).toEqual(FOR_TENANT)
    expect(classes.ended('used', 0)).toEqual({ class: 'used', displaced: 'c0' })
    expect(classes.ended('c0', 0)).toEqual(FOR_TENANT)
    expect(classes.size).toBe(CLASSES_PER_TENANT_MAX)
  })

  it('without an end for long give their place to any other', () => {
    const classes = full(100)
    for (let at = 0; at < CLASSES_PER_TENANT_MAX; at++) if (at !== 7) classes.ended(`c${at}`, 1)
    expect(classes.ended('a', CLASS_IDLE_MS - 1)).toEqual(FOR_TENANT)
    expect(classes.ended('b', CLASS_IDLE_MS)).toEqual({ class: 'b', displaced: 'c7' })
    expect(classes.ended('c', CLASS_IDLE_MS)).toEqual(FOR_TENANT)
  })

  it('leave the tenant’s own alone', () => {
    const classes = full()
    for (let end = 0; end < 10; end++) expect(classes.ended(TENANT_CLASS, 0)).toEqual(FOR_TENANT)
    expect(classes.size).toBe(CLASSES_PER_TENANT_MAX)
  })

  it('survive what is stored', () => {
    const classes = new TenantClasses(TenantClassRows.parse(JSON.parse(JSON.stringify(full(2).rows()))))
    expect(classes.ended('c3', 5)).toEqual({ class: 'c3', displaced: null })
    expect(classes.ended('new', 5)).toEqual(FOR_TENANT)
    expect(classes.rows()[3]).toEqual(['c3', 3, 5])
  })
})
