"""`metrics.profile` in a policy: the names it gives, in the document and in an override."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from governor.core.errors import PolicyError
from governor.policy.document import parse_policy
from governor.policy.model.judging import Metrics
from governor.policy.model.profiles import ProfileName, UtilizationScale
from governor.policy.rules.changes import asked_under, risky_changes
from tests.builders import make_instance

EKS = "{match: {tags: {team: eks}}, name: eks, set: {metrics: %s}}"


def metrics_of(document: str, tags: Mapping[str, str] | None = None) -> Metrics:
    """The metrics by which an instance with these tags is judged."""
    instance = make_instance(tags=tags or {})
    return parse_policy(document).applied_to(instance).policy.metrics


def with_override(metrics: str, base: str = "{}") -> Metrics:
    """The metrics of an override over those of the document."""
    document = f"metrics: {base}\noverrides: [{EKS % metrics}]"
    return metrics_of(document, {"team": "eks"})


@pytest.mark.parametrize(
    ("profile", "namespace", "utilization", "power", "memory"),
    [
        (
            "container-insights",
            "ContainerInsights",
            "node_gpu_utilization",
            "node_gpu_power_draw",
            "node_gpu_memory_used",
        ),
        (
            "dcgm",
            "CWAgent/Prometheus",
            "DCGM_FI_DEV_GPU_UTIL",
            "DCGM_FI_DEV_POWER_USAGE",
            "DCGM_FI_DEV_FB_USED",
        ),
        (
            "neuron",
            "ContainerInsights",
            "node_neuroncore_utilization",
            "",
            "node_neuroncore_memory_usage_total",
        ),
    ],
)
def test_a_profile_gives_its_names(
    profile: str, namespace: str, utilization: str, power: str, memory: str
) -> None:
    """In the document and in an override. A metric that the publisher lacks has no name."""
    for names in (
        metrics_of(f"metrics: {{profile: {profile}}}"),
        with_override(f"{{profile: {profile}}}"),
    ):
        assert ProfileName(profile) is names.profile
        assert (namespace, utilization) == (names.namespace, names.utilization)
        assert (power, memory) == (names.power_draw, names.memory_used)
        assert "" == names.encoder_sessions


def test_the_default_profile_has_the_names_of_earlier_releases() -> None:
    """A policy without a profile, and one that names the default, read the same."""
    assert Metrics() == metrics_of("{}") == metrics_of("metrics: {profile: agent}")
    assert "nvidia_smi_utilization_gpu" == Metrics().utilization


def test_names_that_a_policy_gives_win() -> None:
    """Beside a profile, without one, and in a later override."""
    old = metrics_of("metrics: {namespace: Ours, utilization: DCGM_FI_DEV_GPU_UTIL}")
    assert ("Ours", "DCGM_FI_DEV_GPU_UTIL") == (old.namespace, old.utilization)
    assert "nvidia_smi_power_draw" == old.power_draw

    beside = metrics_of("metrics: {profile: dcgm, namespace: Ours}")
    assert ("Ours", "DCGM_FI_DEV_GPU_UTIL") == (beside.namespace, beside.utilization)

    later = with_override("{namespace: Theirs}", base="{profile: dcgm}")
    assert ("Theirs", "DCGM_FI_DEV_GPU_UTIL") == (later.namespace, later.utilization)


def test_the_profile_of_an_override_replaces_the_names_below_it() -> None:
    """Names of the document belong to the document's publisher."""
    names = with_override("{profile: neuron}", base="{utilization: ours, lag_seconds: 60}")
    assert "node_neuroncore_utilization" == names.utilization
    assert 60 == names.lag_seconds
    back = with_override("{profile: agent}", base="{profile: dcgm}")
    assert Metrics() == back


def test_custom_has_only_names_of_the_policy() -> None:
    """Namespace and utilization are needed; the others are not published unless they are named."""
    with pytest.raises(PolicyError) as refused:
        metrics_of("metrics: {profile: custom, utilization: ours}")
    assert ["metrics.namespace"] == [problem.path for problem in refused.value.problems]
    assert "is missing" in str(refused.value)
    with pytest.raises(PolicyError) as refused_override:
        with_override("{profile: custom}", base="{utilization: ours, namespace: Ours}")
    paths = {problem.path for problem in refused_override.value.problems}
    assert "overrides.0.set.metrics.utilization" in paths

    names = metrics_of("metrics: {profile: custom, utilization: ours, namespace: Ours}")
    assert ("Ours", "ours", "", "") == (
        names.namespace,
        names.utilization,
        names.memory_used,
        names.power_draw,
    )


OURS = "profile: custom, utilization: ours, namespace: Ours"


def test_custom_may_name_the_dimension_that_tells_devices_apart() -> None:
    """In the document and in an override. Another profile has its own."""
    assert "" == metrics_of(f"metrics: {{{OURS}}}").device_dimension
    names = metrics_of(f"metrics: {{{OURS}, device_dimension: Slot}}")
    assert "Slot" == names.device_dimension
    assert "Slot" == with_override(f"{{{OURS}, device_dimension: Slot}}").device_dimension
    back = with_override("{profile: neuron}", base=f"{{{OURS}, device_dimension: Slot}}")
    assert "" == back.device_dimension
    for allowed in ("x" * 255, "Slot of a host", "a:b"):
        names = metrics_of(f'metrics: {{{OURS}, device_dimension: "{allowed}"}}')
        assert allowed == names.device_dimension


@pytest.mark.parametrize(
    ("metrics", "reason"),
    [
        ("device_dimension: Slot", "only metrics.profile: custom"),
        ("profile: dcgm, device_dimension: Slot", "only metrics.profile: custom"),
        (f"{OURS}, device_dimension: InstanceId", "names the instance"),
        (f"{OURS}, device_dimension: 3", "text"),
        (f'{OURS}, device_dimension: " "', "1 to 255 ASCII characters"),
        (f'{OURS}, device_dimension: ":x"', "1 to 255 ASCII characters"),
        (f'{OURS}, device_dimension: "Fläche"', "1 to 255 ASCII characters"),
        (f'{OURS}, device_dimension: "a\\tb"', "1 to 255 ASCII characters"),
        (f"{OURS}, device_dimension: {'x' * 256}", "1 to 255 ASCII characters"),
    ],
)
def test_a_dimension_that_tells_no_devices_apart_is_refused(metrics: str, reason: str) -> None:
    """With its path."""
    with pytest.raises(PolicyError, match=reason) as refused:
        metrics_of(f"metrics: {{{metrics}}}")
    assert ["metrics.device_dimension"] == [problem.path for problem in refused.value.problems]


def test_custom_may_set_the_scale_and_the_number_of_series() -> None:
    """In the document and in an override. The profile of an override has its own."""
    plain = metrics_of(f"metrics: {{{OURS}}}")
    assert (UtilizationScale.PERCENT, 1) == (plain.utilization_scale, plain.series_per_device)
    ours = f"{OURS}, utilization_scale: share, series_per_device: 7"
    for names in (metrics_of(f"metrics: {{{ours}}}"), with_override(f"{{{ours}}}")):
        assert (UtilizationScale.SHARE, 7) == (names.utilization_scale, names.series_per_device)
    assert metrics_of("metrics: {profile: neuron}") == with_override(
        "{profile: neuron}", base=f"{{{ours}}}"
    )


@pytest.mark.parametrize(
    ("metrics", "path", "reason"),
    [
        ("utilization_scale: share", "utilization_scale", "only metrics.profile: custom"),
        (
            "profile: dcgm, utilization_scale: share",
            "utilization_scale",
            "only metrics.profile: custom",
        ),
        ("series_per_device: 2", "series_per_device", "only metrics.profile: custom"),
        (f"{OURS}, series_per_device: 0", "series_per_device", "it must be at"),
        (f"{OURS}, series_per_device: 65", "series_per_device", "it must be at"),
        (f"{OURS}, series_per_device: 1.5", "series_per_device", "whole number"),
        (f"{OURS}, utilization_scale: ratio", "utilization_scale", "percent"),
        (f"{OURS}, utilization_scale: 100", "utilization_scale", "percent"),
    ],
)
def test_a_scale_or_number_that_cannot_be_is_refused(metrics: str, path: str, reason: str) -> None:
    """With its path."""
    with pytest.raises(PolicyError, match=reason) as refused:
        metrics_of(f"metrics: {{{metrics}}}")
    assert [f"metrics.{path}"] == [problem.path for problem in refused.value.problems]


@pytest.mark.parametrize("profile", ["neurn", "Agent", "", "3", "[agent]", "null"])
def test_an_unknown_profile_is_refused_with_its_path(profile: str) -> None:
    """In the document and in an override."""
    for document, path in (
        (f"metrics: {{profile: {profile}}}", "metrics.profile"),
        (
            f"overrides: [{EKS % f'{{profile: {profile}}}'}]",
            "overrides.0.set.metrics.profile",
        ),
    ):
        with pytest.raises(PolicyError) as refused:
            parse_policy(document)
        assert [path] == [problem.path for problem in refused.value.problems]


def test_a_change_of_the_profile_is_risky_and_its_default_is_not() -> None:
    """It changes what counts as measured, also where all names stay the same."""
    plain = parse_policy("{}")
    same = parse_policy("metrics: {profile: agent}")
    assert [] == risky_changes(plain, same)

    neuron = parse_policy("metrics: {profile: neuron}")
    assert "metrics.profile" in risky_changes(plain, neuron)
    assert "metrics.profile" in risky_changes(neuron, plain)

    names = "namespace: ContainerInsights, utilization: node_gpu_utilization"
    by_name = parse_policy(f"metrics: {{{names}}}")
    by_profile = parse_policy("metrics: {profile: container-insights}")
    assert "metrics.profile" in risky_changes(by_name, by_profile)


def test_an_episode_that_was_opened_under_another_profile_does_not_go_on() -> None:
    """Its question rests on other series."""
    then = asked_under(parse_policy("{}").base().policy)
    now = parse_policy("metrics: {profile: container-insights}").base().policy
    with pytest.raises(ValueError, match=r"metrics\.profile: was agent, is container-insights"):
        then.stricter(now)
