/** What policies have in common whose calls keep the place that they come with. */
export abstract class Unmoved {
  charge(): boolean {
    return false
  }

  chargeLeftUs(): number {
    return Number.POSITIVE_INFINITY
  }

  dueUs(): number {
    return Number.POSITIVE_INFINITY
  }

  due(): boolean {
    return false
  }
}
