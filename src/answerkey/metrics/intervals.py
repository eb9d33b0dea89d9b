"""How sure a share is: the 95 % interval of Wilson."""

from __future__ import annotations

import math

#: The 97.5 % point of the standard normal distribution.
Z_95 = 1.959963984540054


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Return the 95 % Wilson score interval of a share of `n` ≥ 1; none ends exactly at 0, all at 1."""
    if not 0 <= successes <= n or n == 0:
        message = f"no share: {successes} of {n}"
        raise ValueError(message)
    share, z_squared = successes / n, Z_95 * Z_95
    spread = Z_95 * math.sqrt(share * (1 - share) / n + z_squared / (4 * n * n))
    scale = 1 + z_squared / n
    centre = share + z_squared / (2 * n)
    low = 0.0 if successes == 0 else max(0.0, (centre - spread) / scale)
    high = 1.0 if successes == n else min(1.0, (centre + spread) / scale)
    return low, high
