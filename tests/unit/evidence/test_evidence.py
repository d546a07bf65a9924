"""Two series of one GPU become one by one rule, and the holes of several GPUs are seen together."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.evidence.model import GpuReadings, Window
from governor.evidence.rules.series import by_index, gpu_label, is_gpu, merged, unmeasured_until
from tests.builders import NOW


@pytest.mark.parametrize(
    ("left", "right", "both"),
    [
        (None, (1.0, None), (1.0, None)),
        ((None, 2.0, None), (1.0, None, None), (1.0, 2.0, None)),
        ((5.0, 0.0), (3.0, 7.0), (5.0, 7.0)),
    ],
)
def test_the_highest_reading_of_each_period_counts(
    left: tuple[float | None, ...] | None,
    right: tuple[float | None, ...],
    both: tuple[float | None, ...],
) -> None:
    """A hole in one is filled by the other."""
    assert both == merged(left, right)


def test_a_gpu_is_named_by_its_index() -> None:
    """The aggregate has none; indexes are ordered as numbers."""
    one = (("InstanceId", "i-1"), ("index", "10"))

    assert (True, "10") == (is_gpu(one), gpu_label(one))
    assert (False, "all") == (is_gpu(one[:1]), gpu_label(one[:1]))
    assert ["all", "0", "9", "10"] == sorted(["10", "9", "all", "0"], key=by_index)


def test_a_value_that_is_no_number_never_hides_a_reading() -> None:
    """Some publishers write NaN where the driver knows nothing; the other series may show work."""
    nan = float("nan")

    assert (95.0, 95.0, None) == merged((nan, 95.0, None), (95.0, nan, nan))


@given(
    st.lists(
        st.lists(st.sampled_from([None, -1.0, 1.0, 1.0]), min_size=24, max_size=24), min_size=1
    )
)
def test_more_gpus_never_make_more_of_the_past_known(series: list[list[float | None]]) -> None:
    """A hole of one GPU and the next of another are one, so together they hide at least what each
    hides."""
    window = Window(NOW - timedelta(hours=2), NOW, timedelta(minutes=5))
    gpus = [GpuReadings(str(number), tuple(values)) for number, values in enumerate(series)]
    together = unmeasured_until(gpus, window)

    for gpu in gpus:
        alone = unmeasured_until([gpu], window)
        assert alone is None or (together is not None and alone <= together)
