"""Which difference stands for a whole row of a comparison."""

import pytest

from kdissect.report.model.comparison import ComparisonRow, Difference, PercentileComparison


def row(*verdicts):
    percentiles = tuple(PercentileComparison(f"p{at}", 1, 2, verdict) for at, verdict in enumerate(verdicts))
    return ComparisonRow("Produce", None, 1, 1, 0, 0, "", percentiles)


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        ((), Difference.FEW),
        ((Difference.SAME, Difference.FEW), Difference.SAME),
        ((Difference.SAME, Difference.FASTER), Difference.FASTER),
        ((Difference.FASTER, Difference.SLOWER), Difference.SLOWER),
        ((Difference.ONLY_AFTER, Difference.FEW), Difference.FEW),
        ((Difference.ONLY_AFTER,), Difference.ONLY_AFTER),
    ],
)
def test_the_first_difference_in_their_order_stands_for_the_row(verdicts, verdict):
    assert row(*verdicts).verdict is verdict
