"""Policies, and any facts of an instance, for tests of plans."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import strategies as st

from governor.core.instance import Instance, Lifecycle, Protection, SpotRequestType, Volume
from governor.episode.model.plan import PlanFacts, Price
from governor.policy.model.acting import Action, PlanRule
from governor.policy.model.policy import Policy
from tests.builders import make_facts, make_instance

STOP = Policy(plan=PlanRule(action=Action.STOP))
TERMINATE = Policy(plan=PlanRule(action=Action.TERMINATE))

volumes = st.lists(
    st.builds(
        Volume,
        volume_id=st.integers(0, 99).map(lambda n: f"vol-{n:017x}"),
        device=st.just("/dev/sdf"),
        delete_on_termination=st.booleans(),
        size_gib=st.one_of(st.none(), st.integers(1, 16_000)),
    ),
    max_size=3,
).map(tuple)


@st.composite
def any_facts(draw: st.DrawFn) -> PlanFacts:
    """Any combination of what EC2 can tell."""
    lifecycle = draw(st.sampled_from(Lifecycle))
    instance: Instance = make_instance(
        lifecycle=lifecycle,
        root_device_type=draw(st.sampled_from(["ebs", "instance-store"])),
        volumes=draw(volumes),
        tags=draw(
            st.sampled_from(
                [{}, {"aws:autoscaling:groupName": "x"}, {"karpenter.sh/nodepool": "x"}]
            )
        ),
        operator_managed=draw(st.booleans()),
        capacity_reservation_id=draw(st.sampled_from([None, "cr-1"])),
        host_id=draw(st.sampled_from([None, "h-1"])),
        spot_request_id="sir-1" if lifecycle is Lifecycle.SPOT else None,
    )
    return make_facts(
        instance,
        protection=Protection(draw(st.none() | st.booleans()), draw(st.none() | st.booleans())),
        spot_request=draw(st.sampled_from(SpotRequestType))
        if lifecycle is Lifecycle.SPOT
        else None,
        price=Price(draw(st.sampled_from([None, Decimal("55.04")])), "somewhere"),
    )


any_policy = st.builds(
    lambda action, unsupported, protected: Policy(
        plan=PlanRule(
            action=action,
            when_stop_is_unsupported=unsupported,
            when_termination_is_protected=protected,
        )
    ),
    st.sampled_from(Action),
    st.sampled_from([Action.TERMINATE, Action.NOTIFY_ONLY]),
    st.sampled_from([Action.STOP, Action.NOTIFY_ONLY]),
)
