"""When a preempted call had no seat."""

from switchyard_vllm.pauses import PAUSES_MAX, Pauses


def test_a_pause_has_its_times_and_whether_kv_was_moved_meanwhile() -> None:
    pauses = Pauses()
    pauses.end(5, 0)
    pauses.begin(10, 0)
    pauses.end(20, 0)
    pauses.begin(30, 0)
    pauses.end(50, 16)
    assert pauses.over == [(10, 20, False), (30, 50, True)]


def test_the_first_pauses_are_kept() -> None:
    pauses = Pauses()
    for at in range(PAUSES_MAX + 1):
        pauses.begin(2 * at, 0)
        pauses.end(2 * at + 1, 0)
    assert len(pauses.over) == PAUSES_MAX
    assert pauses.over[-1] == (2 * PAUSES_MAX - 2, 2 * PAUSES_MAX - 1, False)
