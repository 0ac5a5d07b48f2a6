import { describe, expect, it } from 'vitest'
import { chooseSwap, type HandlingCosts, type HeldImage, restoreGainUs, swapUs } from './swap-choice.ts'

const COSTS: HandlingCosts = {
  base_us: 100,
  save_us_per_token: 1,
  restore_us_per_token: 1,
  recompute_us_per_token: 10,
}
const image = (id: number, tokens: number): HeldImage => ({ id, tokens, room: tokens })
const wish = (tokens: number, free_room: number, images: HeldImage[] = [], wait_tokens = 0) => ({
  tokens,
  wait_tokens,
  room: tokens,
  free_room,
  images,
})
const dropped = (...given: Parameters<typeof chooseSwap>) => {
  const choice = chooseSwap(...given)
  return choice.swap ? choice.drop.map(({ id }) => id) : null
}

describe('a call is swapped', () => {
  it('from the length on at which moving it there and back takes less than computing it', () => {
    expect(swapUs(COSTS, 25)).toBe(250)
    expect(dropped(COSTS, wish(25, 1000))).toBeNull()
    expect(dropped(COSTS, wish(26, 1000))).toEqual([])
  })

  it('unless the forward pass waits for the link for longer than the swap gains', () => {
    expect(dropped(COSTS, wish(100, 1000, [], 100))).toEqual([])
    expect(dropped(COSTS, wish(26, 1000, [], 7))).toEqual([])
    expect(dropped(COSTS, wish(26, 1000, [], 8))).toBeNull()
  })

  it('never if a token is copied more slowly than it is computed', () => {
    const slow = { ...COSTS, save_us_per_token: 6, restore_us_per_token: 6 }
    expect(dropped(slow, wish(1_000_000, 1_000_000))).toBeNull()
  })

  it('never without tokens, even where nothing costs anything', () => {
    const free = { base_us: 0, save_us_per_token: 0, restore_us_per_token: 0, recompute_us_per_token: 1 }
    expect(dropped(free, wish(0, 10))).toBeNull()
  })

  it('up to the last of the room, and without it not', () => {
    expect(dropped(COSTS, wish(100, 100))).toEqual([])
    expect(dropped(COSTS, wish(100, 99))).toBeNull()
  })
})

describe('where room lacks', () => {
  it('the images that spare least for their room are dropped, as few as are needed', () => {
    // An operation's base cost makes short images worth less for their room.
    const images = [image(3, 200), image(1, 50), image(2, 100)]
    expect(dropped(COSTS, wish(1_000, 960, images))).toEqual([1])
    expect(dropped(COSTS, wish(1_000, 900, images))).toEqual([1, 2])
  })

  it('images that are worth as much as the call stay, and the call is computed again', () => {
    expect(dropped(COSTS, wish(100, 0, [image(1, 100)]))).toBeNull()
    expect(restoreGainUs(COSTS, 100)).toBe(800)
  })

  it('no image is dropped if all of them would not be enough', () => {
    expect(dropped(COSTS, wish(1_000, 0, [image(1, 30), image(2, 30)]))).toBeNull()
  })

  it('the older of two equal images goes', () => {
    expect(dropped(COSTS, wish(1_000, 950, [image(8, 60), image(7, 60)]))).toEqual([7])
  })

  it('an image that restores more slowly than it computes goes for nothing', () => {
    expect(dropped(COSTS, wish(300, 295, [image(1, 5), image(2, 100)]))).toEqual([1])
  })
})
