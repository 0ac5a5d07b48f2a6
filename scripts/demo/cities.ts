/** The ReAct demo's second tool: a small table of cities. Rounded figures, for the demo only. */

interface City {
  country: string
  population: number
  area_km2: number
}

const CITIES: Readonly<Record<string, City>> = {
  oslo: { country: 'Norway', population: 717_000, area_km2: 454 },
  bergen: { country: 'Norway', population: 291_000, area_km2: 465 },
  vienna: { country: 'Austria', population: 2_005_000, area_km2: 415 },
  graz: { country: 'Austria', population: 302_000, area_km2: 128 },
  lisbon: { country: 'Portugal', population: 567_000, area_km2: 100 },
  porto: { country: 'Portugal', population: 249_000, area_km2: 41 },
  helsinki: { country: 'Finland', population: 684_000, area_km2: 716 },
  turku: { country: 'Finland', population: 204_000, area_km2: 246 },
}

export function lookUpCity(name: string): string {
  const key = name.trim().toLowerCase()
  const city = Object.hasOwn(CITIES, key) ? CITIES[key] : undefined
  if (city === undefined) return `unknown city; known are ${Object.keys(CITIES).join(', ')}`
  return `${name.trim()} is in ${city.country}, has ${city.population} people and ${city.area_km2} square kilometres`
}
