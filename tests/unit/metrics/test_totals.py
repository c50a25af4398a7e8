from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.metrics.totals import (
    BOUNDS,
    count_field,
    duration_fields,
    read_counts,
    read_histograms,
)

labels = st.tuples(st.text(), st.text())
durations = st.floats(0, 1000)


@given(st.lists(st.tuples(labels, durations)))
def test_durations_add_up_to_a_histogram_for_each_pair_of_labels(observed: list[tuple[tuple[str, str], float]]) -> None:
    stored: Counter[str] = Counter()
    for pair, seconds in observed:
        for name, by in duration_fields(pair, seconds):
            stored[name] += by
    histograms = read_histograms({name: str(value) for name, value in stored.items()})
    assert set(histograms) == {pair for pair, _ in observed}
    for pair, histogram in histograms.items():
        own = [seconds for other, seconds in observed if other == pair]
        assert abs(histogram.seconds - sum(own)) < 1e-5 * (len(own) + 1)
        at_most = dict(histogram.cumulative())
        assert at_most["+Inf"] == len(own)
        assert all(at_most[f"{bound:g}"] == sum(seconds <= bound for seconds in own) for bound in BOUNDS)


def test_counts_come_back_by_their_labels() -> None:
    assert read_counts({count_field(("a", 'b","c')): "3"}) == {("a", 'b","c'): 3}
