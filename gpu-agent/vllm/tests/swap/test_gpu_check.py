"""The check of a GPU says what is missing before it takes ten minutes."""

from gpu_check.machine import GIB, memory_missing


def test_memory_that_is_too_small_or_held_by_others_is_named() -> None:
    h100 = int(79.2 * GIB)
    assert memory_missing(int(78.7 * GIB), h100, 120 * GIB) is None
    assert memory_missing(int(78.7 * GIB), h100, None) is None
    held = memory_missing(40 * GIB, h100, 120 * GIB)
    assert held is not None
    assert "40.0 of the GPU's 79.2 GiB" in held
    assert "85% must be" in held
    small = memory_missing(int(15.5 * GIB), 16 * GIB, 120 * GIB)
    assert small is not None
    assert "--parts exact" in small
    host = memory_missing(int(78.7 * GIB), h100, 30 * GIB)
    assert host is not None
    assert "The host has 30.0 GiB" in host
