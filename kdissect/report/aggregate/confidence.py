"""How far a percentile of a sample may be from the truth: confidence intervals from order statistics.

The number of n independent values below the true p-quantile is binomial (n, p), whatever their distribution.
So the values at ranks l and u enclose that quantile with probability P(l <= B < u). No mean, no variance and
no normal law is needed. `confidence_ranks` returns the narrowest such pair with half of the doubt on either
side. If even the first and the last value do not reach the confidence, there are too few values and no
interval.

Latencies of one capture are not quite independent, since a pause delays many requests at once. The true
confidence is therefore somewhat lower, and a comparison should require intervals that do not even touch.
"""

from functools import lru_cache
from math import exp, lgamma, log, sqrt
from statistics import NormalDist

CONFIDENCE = 0.95
NORMAL_FROM = 1000
"""From this variance of the binomial on, the normal law is used. Its ranks are widened by one or two."""

NEGLIGIBLE = 10.0
"""Standard deviations below the mean at which the terms of a binomial begin to count."""

Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


@lru_cache(maxsize=4096)
def confidence_ranks(count: int, per_mille: int) -> tuple[int, int] | None:
    """Return the ranks, from 1, of the values that enclose a quantile; None if there are too few values."""
    part = per_mille / 1000
    spread = count * part * (1 - part)
    if spread >= NORMAL_FROM:
        reach = Z * sqrt(spread)
        return int(count * part - reach) - 1, int(count * part + reach) + 3
    low, high = _from_below(count, part), count + 1 - _from_below(count, 1 - part)
    return (low, high) if low >= 1 and high <= count else None


def _from_below(count: int, part: float) -> int:
    """Return the highest rank r with P(B < r) within half of the doubt; 0 if there is none."""
    doubt, below = (1 - CONFIDENCE) / 2, 0.0
    reach = NEGLIGIBLE * sqrt(count * part * (1 - part)) + NEGLIGIBLE
    # The same for all terms, of which a report has 30,000.
    of_all, of_part, of_rest = lgamma(count + 1), log(part), log(1 - part)
    for chosen in range(max(int(count * part - reach), 0), count + 1):
        rest = count - chosen
        ways = of_all - lgamma(chosen + 1) - lgamma(rest + 1)
        below += exp(ways + chosen * of_part + rest * of_rest)
        if below > doubt:
            return chosen
    return count
