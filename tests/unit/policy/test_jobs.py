"""`money.job_tag_keys`: the tags that name the job of an instance."""

from __future__ import annotations

import pytest

from governor.core.errors import PolicyError
from governor.policy.document import parse_policy
from governor.policy.model.money import Money
from governor.policy.rules.owners import job_of
from tests.builders import make_instance


def test_the_first_tag_with_a_value_names_the_job() -> None:
    """The order of the setting counts, not that of the tags; an empty value names nothing."""
    rule = Money(job_tag_keys=("RunId", "Job"))

    assert "eval" == job_of(make_instance(tags={"Job": "eval"}), rule)
    assert "run-7" == job_of(make_instance(tags={"Job": "eval", "RunId": "run-7"}), rule)
    assert "eval" == job_of(make_instance(tags={"Job": "eval", "RunId": " \n"}), rule)
    assert job_of(make_instance(tags={"Name": "eval"}), rule) is None
    assert job_of(make_instance(tags={"Job": "eval"}), Money(job_tag_keys=())) is None


def test_a_job_is_one_printable_line() -> None:
    """Tags may hold line breaks and marks that turn text around."""
    instance = make_instance(tags={"job": "night\nly \u202e🚀"})

    assert "night ly 🚀" == job_of(instance, Money())


def test_an_override_may_name_other_tags() -> None:
    """Each account may have a convention of its own."""
    policy = parse_policy(
        "overrides:\n- name: hpc\n  match: {tags: {Team: hpc}}\n"
        "  set: {money: {job_tag_keys: [Run]}}"
    )
    hpc = make_instance(tags={"Team": "hpc", "Run": "cfd-1", "Job": "other"})
    other = make_instance(tags={"Run": "cfd-1", "Job": "eval"})

    assert "cfd-1" == job_of(hpc, policy.applied_to(hpc).policy.money)
    assert "eval" == job_of(other, policy.applied_to(other).policy.money)


def test_other_settings_of_the_section_are_refused() -> None:
    """With their path, as everywhere."""
    with pytest.raises(PolicyError, match=r"money\.job_tags"):
        parse_policy("money: {job_tags: [Job]}")
    with pytest.raises(PolicyError, match=r"money\.job_tag_keys"):
        parse_policy("money: {job_tag_keys: 7}")
