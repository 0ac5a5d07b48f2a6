import { expect, test } from 'vitest'
import { profileOf } from '../../gpu-agent/engine/backends/emulated/profiles/index.ts'
import { derivedProfiles } from './derive-profile.ts'
import { FALCON_180B, LLAMA_31_8B, LLAMA_31_70B, weightBytes } from './model-shapes.ts'

test('the shipped A100 profiles are those that the fits give', () => {
  const derived = derivedProfiles()
  expect(derived.map(({ name }) => name)).toEqual([
    'a100-8b',
    'a100-70b-tp4',
    'a100-180b-tp8',
    'gpt-j-6b-40gb',
    'vicuna-13b-40gb',
  ])
  for (const profile of derived) expect(profileOf(profile.name)).toEqual(profile)
})

test('shapes have the weights of their models, two bytes a parameter', () => {
  const billions = [LLAMA_31_8B, LLAMA_31_70B, FALCON_180B].map((shape) => weightBytes(shape) / 2e9)
  expect(billions.map((weights) => Math.round(weights * 10) / 10)).toEqual([8, 70.6, 179.5])
})
