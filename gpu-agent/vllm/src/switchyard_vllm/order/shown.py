"""Numbers as people read them, in the words of the policies. `gpu-agent/engine/order/policies/` has the same ones."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

#: Of a policy whose calls of one rank run by program, and of one whose do not.
BY_PROGRAM = "in order of its program\u2019s first call"
BY_ARRIVAL = "in order of arrival"
PROMOTED = ", promoted since it waited long"


def shown_us(us: float) -> str:
    """`4.2 ms`, `1.30 s`, `85 s`."""
    if us >= 10_000_000:
        return f"{_fixed(us / 1e6, '1')} s"
    return f"{_fixed(us / 1e6, '0.01')} s" if us >= 1_000_000 else f"{_fixed(us / 1000, '0.1')} ms"


def shown_number(value: float) -> str:
    """A whole number has no decimal point, as in JavaScript."""
    return str(int(value)) if value == int(value) else repr(value)


def _fixed(value: float, unit: str) -> str:
    """JavaScript's `toFixed` of numbers that are not negative: of two neighbours equally near, the greater."""
    return str(Decimal(value).quantize(Decimal(unit), ROUND_HALF_UP))
