"""Notifies people and subscribers of what a sweep found: new idle stretches, silence, managed
instances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from operator import attrgetter

from governor.domain.alerts.alert import Owner, by_owner, owner_of, short_hash
from governor.domain.approvals.messages import over_alert, recovered_alert
from governor.domain.events.messages import notice_alert
from governor.domain.events.notice import Notice
from governor.domain.instance import managed_by
from governor.domain.money.cost import Rate
from governor.domain.sweep.breaker import is_outage
from governor.domain.sweep.managed import (
    Home,
    IdleMember,
    Kind,
    advice_for,
    group_key,
    home_of,
    managed_alert,
)
from governor.domain.sweep.messages import exemption_alert, idle_event, silent_alert
from governor.domain.sweep.verdict import UNREAD
from governor.errors import CloudError
from governor.ports import Announcer, BatchReader
from governor.stores import Failures
from governor.usecases.events.notify_dates import DATE_KEPT
from governor.usecases.once import Once
from governor.usecases.sweep.sweep_case import Sweep

_FAILED_BEFORE = timedelta(minutes=10)
"""Its record may not say so yet: people are notified before an episode is closed."""
_EARLIER = timedelta(minutes=10)
"""The log forgets a message so much before it is due again, or the sweep that is due would come too
soon."""
_A_WEEK = timedelta(days=7)
_MOST_EVENTS = 200
"""Idle events of one sweep; the next sweeps publish the others."""


@dataclass(frozen=True, slots=True)
class SweepAlerts:
    """Note sent alerts on the case, so that the next sweep does not send them again."""

    announcer: Announcer
    batch: BatchReader
    once: Once
    state: Failures

    def idle(self, sweep: Sweep) -> None:
        """Publish one event per idle stretch, for machines; so many a sweep that it ends in
        time."""
        fresh = [case for case in sweep.cases if case.is_idle and not case.before.idle_told_at]
        dated = [(case, since) for case in fresh if (since := case.idle_since) is not None]
        events = []
        for case, since in dated[:_MOST_EVENTS]:
            owner = owner_of(case.instance, case.policy.ownership)
            event = idle_event(case.instance, case.verdict, since, owner, sweep.now)
            events.append(("idle event", partial(self.announcer.announce, event)))
        for (case, _), sent in zip(dated, sweep.attempt_each(events), strict=False):
            case.notified = sent

    def silence(self, sweep: Sweep) -> None:
        """Notify each owner of theirs; in an outage the default owner of all."""
        target, base = sweep.target, sweep.base
        silent = {case.id: case for case in sweep.cases if case.fell_silent}
        # Also those whose work is known from before and need no read now.
        measurable = sum(case.verdict.kind not in UNREAD for case in sweep.cases)
        outage = is_outage(len(silent), measurable, base.breaker)
        instances = [case.instance for case in silent.values()]
        everybody = {Owner(base.ownership.default_owner): instances}
        for owner, theirs in (everybody if outage else by_owner(instances, base.ownership)).items():
            found = [(one, silent[one.instance_id].verdict) for one in theirs]
            alert = silent_alert(target, found, owner, sweep.now, outage=outage)
            if sweep.attempt("silence alert", self.announcer.announce, alert):
                for one in theirs:
                    silent[one.instance_id].notified = True

    def unusual_exemptions(self, sweep: Sweep) -> None:
        """Notify each owner of exemption tags that are oddly spelled; once a week while they are
        the same."""
        rules = {case.id: (case.policy.exemption, case.instance) for case in sweep.cases}
        odd = {
            i: tag
            for i, (x, one) in rules.items()
            if (tag := x.like_it_on(one)) and not x.is_on(one)
        }
        instances = [case.instance for case in sweep.cases if case.id in odd]
        for owner, theirs in by_owner(instances, sweep.base.ownership).items():
            kept = [(one, odd[one.instance_id]) for one in theirs]
            alert = exemption_alert(sweep.target, kept, sweep.base.exemption, owner, sweep.now)
            same = short_hash(*(f"{one.instance_id} {tag}" for one, tag in kept))
            key, notify = f"exemption#{owner.key}#{same}", partial(self.announcer.announce, alert)
            sweep.attempt("exemption alert", self.once, key, notify, keep=_A_WEEK)

    def recovered(self, sweep: Sweep) -> None:
        """Notify that no instance fails for a cause any more, or that its step works in the
        target."""
        failing, still = (
            self.state.failing(),
            {case.id for case in sweep.cases if case.record.failures},
        )
        newest = {
            (one.target, one.instance_id): one.at for one in sorted(failing, key=attrgetter("at"))
        }
        for number, one in enumerate(failing):
            fails_on = one.instance_id in still and newest[one.target, one.instance_id] == one.at
            is_fresh = fails_on or sweep.now - one.at < _FAILED_BEFORE or one.target != sweep.target
            if one.over_at is None and not is_fresh:
                self.state.note_over(one, sweep.now)
                failing[number] = replace(one, over_at=sweep.now)
        for cause in sorted({one.cause for one in failing}):
            those = [one for one in failing if one.cause == cause]
            if all(one.over_at for one in those):
                alert = recovered_alert(those, sweep.target, sweep.now)
                self.once(alert.dedup_id, partial(self.announcer.announce, alert))
                self.once.log.done(f"failure#{cause}", sweep.now, timedelta())
                self.state.drop_failing(those)

    def incidents_over(self, sweep: Sweep) -> None:
        """Let machines close what they opened, where its time has passed and no finding keeps it
        open."""
        for one in self.state.incidents():
            if one.ends_at > sweep.now or self.once.log.told(one.target, sweep.now) & {
                *one.lasts_with
            }:
                continue
            alert = over_alert(one, sweep.now)
            self.once(alert.dedup_id, partial(self.announcer.announce, alert))
            self.state.drop_incident(one)

    def reminders(self, sweep: Sweep) -> None:
        """Remind the owners of what runs of the dates that AWS has announced, when they are
        near."""
        notices: list[Notice] = []
        before = timedelta(hours=sweep.base.events.remind_before_hours)
        reading = "announced dates could not be read"
        sweep.attempt(reading, lambda: notices.extend(self.once.log.notices(sweep.target)))
        instances = [case.instance for case in sweep.cases]
        for notice in (one for one in notices if one.is_due(sweep.now, before)):
            for owner, theirs in by_owner(notice.concerns(instances), sweep.base.ownership).items():
                alert = notice_alert(notice, theirs, owner, sweep.now, again=True)
                key = f"reminder#{notice.message_key}#{owner.name}#{owner.project}"
                label, notify = (
                    f"{notice.key}: {owner.name}",
                    partial(self.announcer.announce, alert),
                )
                sweep.attempt(f"{label} was not reminded", self.once, key, notify, keep=DATE_KEPT)

    def managed_idle(self, sweep: Sweep, rates: Mapping[str, Rate]) -> None:
        """Notify the owners of environments that other services manage: one message for each, once
        in the policy's time, with the advice that fits, and none during a freeze."""
        if sweep.summary.frozen:
            return
        rule, again_after = (
            sweep.base.ownership,
            timedelta(hours=sweep.base.managed.tell_again_after_hours),
        )
        tags = sweep.base.managed.tag_keys
        governed = Counter(
            home_of(c.instance, m) for c in sweep.cases if (m := managed_by(c.instance, tags))
        )
        groups: dict[tuple[Home, Owner], dict[str, IdleMember]] = {}
        for case in sweep.cases:
            since, manager = case.managed_idle_since, case.verdict.manager
            if since is not None and manager is not None:
                group = home_of(case.instance, manager), owner_of(case.instance, rule)
                member = IdleMember(case.instance, since, rates[case.id].usd_per_hour)
                groups.setdefault(group, {})[case.id] = member
        due = {case.id for case in sweep.cases if case.is_managed_due}
        notified: set[str] = set()
        for (home, owner), idle in groups.items():
            notify = partial(
                self._notify_managed, sweep, home, owner, [*idle.values()], governed[home]
            )
            key, keep = group_key(sweep.target, home, owner), again_after - _EARLIER
            if due & idle.keys() and sweep.attempt(home.title, self.once, key, notify, keep=keep):
                # Those that have joined since the last message are in the next one.
                notified |= idle.keys()
        for case in sweep.cases:
            case.notified |= case.id in notified

    def _notify_managed(
        self, sweep: Sweep, home: Home, owner: Owner, idle: Sequence[IdleMember], governed: int
    ) -> None:
        advice: tuple[str, ...] = ()
        environment = None
        if home.kind is Kind.BATCH and home.name:
            try:
                environment = self.batch.environment(sweep.target, home.name)
            except CloudError as error:
                advice = (f"Its settings and jobs could not be read: {error}",)
        if environment is not None:
            # What the tags of the instances leave open, those of the compute environment say.
            first = idle[0].instance
            owner = owner_of(
                replace(first, tags={**environment.tags, **first.tags}), sweep.base.ownership
            )
        advice = (*advice_for(home, environment), *advice)
        alert = managed_alert(
            home, idle, governed, sweep.target, sweep.now, owner=owner, advice=advice
        )
        self.announcer.announce(alert)
