"""The contract of copy backends: bit-exact for every layout, dtype and block table. Triton runs in its interpreter on a CPU."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from switchyard_vllm.swap.checksums import row_checksums
from switchyard_vllm.swap.copy_backend import BackendUnavailableError, copy_backend
from switchyard_vllm.swap.kv_layers import KvLayers

from .backends import BACKENDS, DEVICE, backend_of
from .layouts import DTYPES, LAYOUTS, SPLIT, KvCache, KvShape, kv_shapes, moves

every_backend = pytest.mark.parametrize("name", BACKENDS)
thorough = settings(max_examples=60, deadline=None)


def test_torch_and_triton_run_everywhere() -> None:
    assert BACKENDS[:2] == ["torch", "triton"]


@every_backend
@thorough
@given(st.data())
def test_blocks_come_back_bit_exact_and_nothing_else_changes(name: str, data: st.DataObject) -> None:
    shape = data.draw(kv_shapes())
    from_ids, to_ids = data.draw(moves(shape.blocks))
    cache = KvCache(shape, seed=data.draw(st.integers(0, 99)))
    backend = backend_of(name, cache)
    image = backend.layers.empty_image(len(from_ids))
    backend.gather(from_ids, image)
    assert cache.as_expected(), "a gather changed KV"
    backend.scatter(image, to_ids)
    cache.expect_moved(from_ids, to_ids)
    assert cache.as_expected()


@every_backend
@thorough
@given(st.data())
def test_images_are_the_same_for_every_backend(name: str, data: st.DataObject) -> None:
    """So an image may leave through one and return through another."""
    shape = data.draw(kv_shapes())
    ids, _ = data.draw(moves(shape.blocks))
    cache = KvCache(shape)
    mine, reference = (backend_of(one, cache) for one in (name, "torch"))
    images = [torch.zeros_like(backend.layers.empty_image(len(ids))) for backend in (mine, reference)]
    mine.gather(ids, images[0])
    reference.gather(ids, images[1])
    assert torch.equal(*images)


@every_backend
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_corrupted_image_fails_the_check(name: str, data: st.DataObject) -> None:
    """The negative control: one flipped bit anywhere."""
    shape = data.draw(kv_shapes())
    from_ids, to_ids = data.draw(moves(shape.blocks))
    cache = KvCache(shape)
    backend = backend_of(name, cache)
    image = backend.layers.empty_image(len(from_ids))
    backend.gather(from_ids, image)
    before = row_checksums(image)
    row = data.draw(st.integers(0, len(from_ids) - 1))
    image[row, data.draw(st.integers(0, image.shape[1] - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert (row_checksums(image) != before).nonzero().flatten().tolist() == [row]
    backend.scatter(image, to_ids)
    cache.expect_moved(from_ids, to_ids)
    assert not cache.as_expected()


@every_backend
@pytest.mark.parametrize("layout", [*LAYOUTS, SPLIT])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_layout_and_dtype(name: str, layout: str, dtype: torch.dtype) -> None:
    shape = KvShape(layout=layout, layers=4, blocks=7, heads=2, tokens=16, content=32, dtype=dtype)
    cache = KvCache(shape)
    backend = backend_of(name, cache)
    image = backend.layers.empty_image(4)
    backend.gather([5, 0, 3, 6], image)
    backend.scatter(image, [1, 6, 2, 5])
    cache.expect_moved([5, 0, 3, 6], [1, 6, 2, 5])
    assert cache.as_expected()


@every_backend
def test_pieces_larger_than_a_chunk_and_not_a_multiple_of_it(name: str) -> None:
    shape = KvShape(layers=2, blocks=5, heads=3, tokens=16, content=3 * 128, dtype=torch.float16)
    cache = KvCache(shape)
    backend = backend_of(name, cache)
    image = backend.layers.empty_image(2)
    backend.gather([4, 1], image)
    backend.scatter(image, [0, 4])
    cache.expect_moved([4, 1], [0, 4])
    assert cache.as_expected()


@every_backend
def test_an_image_of_no_blocks_is_empty(name: str) -> None:
    cache = KvCache(KvShape())
    backend = backend_of(name, cache)
    backend.gather([], backend.layers.empty_image(0))
    backend.scatter(backend.layers.empty_image(0), [])
    assert cache.as_expected()


@every_backend
def test_wrong_images_and_blocks_are_refused(name: str) -> None:
    cache = KvCache(KvShape(blocks=6))
    backend = backend_of(name, cache)
    image = backend.layers.empty_image(2)
    with pytest.raises(ValueError, match="image of 3 blocks"):
        backend.gather([0, 1, 2], image)
    with pytest.raises(ValueError, match="image of 2 blocks"):
        backend.scatter(backend.layers.empty_image(4)[::2], [0, 1])
    with pytest.raises(ValueError, match="from 0 to 5"):
        backend.gather([0, 6], image)
    with pytest.raises(ValueError, match="from 0 to 5"):
        backend.scatter(image, [-1, 0])
    assert cache.as_expected()


def test_backends_that_cannot_run_say_why() -> None:
    layers = KvLayers.of(KvCache(KvShape()).tensors, KvShape().blocks)
    with pytest.raises(BackendUnavailableError, match="auto, torch, triton or vllm"):
        copy_backend("cuda", layers)
    if "vllm" not in BACKENDS:
        reason = "not installed" if DEVICE.type == "cuda" else "needs a GPU"
        with pytest.raises(BackendUnavailableError, match=reason):
            copy_backend("vllm", layers)
    assert copy_backend("auto", layers).name == ("triton" if DEVICE.type == "cuda" else "torch")
