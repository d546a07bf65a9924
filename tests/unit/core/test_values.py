"""Values that may be missing, and names that are left out."""

from governor.core.units import not_none, without, without_none


def test_only_none_is_left_out_of_values() -> None:
    assert [0, "", False, 1] == not_none([0, None, "", False, None, 1])
    assert [] == not_none([None])


def test_only_none_is_left_out_of_a_mapping() -> None:
    assert {"zero": 0, "empty": ""} == without_none({"zero": 0, "empty": "", "unknown": None})


def test_names_are_left_out_of_a_mapping() -> None:
    values = {"seal": "1.x", "name": "demo"}

    assert {"name": "demo"} == without(values, ["seal", "not there"])
    assert 2 == len(values)
