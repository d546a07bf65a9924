"""The way back tells the truth: a start that EC2 refuses or takes back is said in EC2's words, and
the button opens again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from governor.alerts.model import AlertKind
from governor.approvals.messages.sentences import start_text
from governor.core.errors import AccessDenied, CloudError, Throttled, Unavailable
from governor.core.units import UtcDatetime
from governor.episode.model.episode import Episode, Undo
from governor.episode.model.start_try import StartStatus, StartTry
from governor.episode.rules.sent_call import UNDER_WAY_FOR
from governor.episode.rules.start import is_refusal, words_of_ec2
from governor.episode.rules.start_advice import advice_on
from governor.remediation.follow_start import MAY_FALL_BACK_FOR
from tests.builders import NOW, TARGET
from tests.unit.remediation.starts import WORDS, start_error
from tests.unit.remediation.test_ends import state_change
from tests.unit.remediation.test_undo import starts, stopped, undo
from tests.unit.worlds.builders import looker, see
from tests.unit.worlds.world import World

REFUSALS = {
    400: """
        AttachmentLimitExceeded Blocked EncryptedVolumesNotSupported IncorrectInstanceState
        IncorrectState InstanceLimitExceeded InsufficientFreeAddressesInSubnet
        InvalidCapacityReservationId.NotFound InvalidHostID.NotFound InvalidInstanceID.Malformed
        InvalidInstanceID.NotFound InvalidInstanceType InvalidKMSKey.InvalidState
        InvalidNetworkInterfaceID.NotFound InvalidParameterCombination InvalidParameterValue
        InvalidPlacementGroup.Unknown InvalidSubnetID.NotFound MaxIOPSLimitExceeded
        MaxSpotInstanceCountExceeded MissingParameter NetworkInterfaceLimitExceeded
        OperationNotPermitted PendingVerification ReservationCapacityExceeded
        SpotMaxPriceTooLow Unsupported UnsupportedHostConfiguration UnsupportedOperation
        VcpuLimitExceeded VolumeLimitExceeded
    """,
    401: "AuthFailure OptInRequired",
    403: "UnauthorizedOperation",
    500: """
        InsufficientAddressCapacity InsufficientCapacity InsufficientHostCapacity
        InsufficientInstanceCapacity InsufficientReservedInstanceCapacity
        InsufficientVolumeCapacity
    """,
    503: "InsufficientCapacityOnHost",
    # A code that AWS adds later, and one with a dot and a digit.
    418: "SomethingNew Something2.New3",
}
"""EC2's codes that a start can meet, by HTTP status. Source: EC2 API, Error codes."""
NO_REFUSALS = {
    400: "Throttling ThrottlingException RequestThrottled",
    503: "RequestLimitExceeded EC2ThrottledException ServiceUnavailable Unavailable 503",
    500: "InternalError InternalFailure 500 Unknown",
    429: "TooManyRequestsException",
    502: "502",
}
"""Throttling, the few faults of EC2's servers, and answers that are not EC2's own."""


KEY_ERROR = "Client.InternalError: Client error on launch"
SECOND = timedelta(seconds=1)


def _cases(codes_by_status: dict[int, str]) -> list[tuple[str, int]]:
    """Code and status, one after the other."""
    cases = []
    for status, codes in codes_by_status.items():
        cases += [(code, status) for code in codes.split()]
    return cases


def episode_of(world: World) -> Episode:
    stored = world.state.episode(world.ref)
    assert stored is not None
    return stored


def last_try(world: World) -> StartTry:
    """The try as it is stored."""
    start_try = episode_of(world).start_try
    assert start_try is not None
    return start_try


def kinds(world: World) -> list[AlertKind]:
    return [alert.kind for alert in world.announcer.sent]


def journal(world: World) -> list[str]:
    """The entries about starts that the audit gets, in order."""
    return [
        str(item["what"])
        for (_, sk), item in sorted(world.state.items.items())
        if sk.startswith("JOURNAL#") and item.get("step") == "start"
    ]


@pytest.mark.parametrize(("code", "status"), _cases(REFUSALS))
def test_each_answer_in_ec2_s_format_is_a_refusal_in_its_words(code: str, status: int) -> None:
    """On the page, in the message and in the audit; and the button opens again."""
    world = stopped()
    world.ec2.failures["start"] = [start_error(code, status)]

    answer = undo(world)

    noted = last_try(world)
    assert (False, True, True) == (answer.done, WORDS in answer.text, code in answer.text)
    assert "not certain" not in answer.text
    assert (StartStatus.REFUSED, code, WORDS) == (noted.status, noted.code, noted.words)
    assert [AlertKind.START_FAILED] == kinds(world)
    assert f"EC2's reason: {code}: {WORDS}." in world.announcer.sent[0].lines
    assert ["refused"] == journal(world)
    assert episode_of(world).can_be_started
    assert undo(world).done


@pytest.mark.parametrize(("code", "status"), _cases(NO_REFUSALS))
@pytest.mark.parametrize("has_effect", [True, False])
def test_throttling_and_server_faults_get_a_look(code: str, status: int, has_effect: bool) -> None:
    """They prove nothing: the instance shows whether it starts."""
    world = stopped()
    world.ec2.instant = False
    error = start_error(code, status)
    if has_effect:
        start = world.ec2.start

        def lost(*arguments: object) -> str | None:
            start(*arguments)  # type: ignore[arg-type]
            raise error

        world.ec2.start = lost  # type: ignore[method-assign, assignment]
    else:
        world.ec2.failures["start"] = [error]

    answer = undo(world)

    assert answer.done
    assert WORDS not in answer.text
    expected = StartStatus.ACCEPTED if has_effect else StartStatus.ASKED
    assert (expected, []) == (last_try(world).status, kinds(world))
    assert episode_of(world).can_be_started is not has_effect


def test_a_lost_answer_is_looked_at_and_never_ends_in_press_once_more_forever() -> None:
    """Without an effect it is over after the minutes in which EC2 may still carry it out."""
    world = stopped()
    world.ec2.failures["start"] = [Unavailable("no answer", operation="ec2:StartInstances")]
    assert undo(world).done

    world.clock.moment = NOW + UNDER_WAY_FOR - timedelta(seconds=1)
    see(world)
    assert StartStatus.ASKED is last_try(world).status
    world.clock.moment = NOW + UNDER_WAY_FOR
    see(world)

    assert StartStatus.NO_EFFECT is last_try(world).status
    (alert,) = world.announcer.sent
    assert "notebook did not start: it is still stopped" == alert.subject
    assert "EC2 accepted" not in str(alert.lines)
    assert undo(world).done


def test_while_the_answer_is_not_known_anybody_may_try_again() -> None:
    """EC2 takes a second start of an instance that starts for the first one."""
    world = stopped()
    world.ec2.failures["start"] = [Unavailable("no answer", operation="ec2:StartInstances")]
    undo(world)

    again = undo(world, "bob")

    assert (True, 2, "bob") == (again.done, starts(world), last_try(world).asked_by)
    assert StartStatus.ACCEPTED is last_try(world).status


@pytest.mark.parametrize("launch_time", ["same", "later"])
def test_a_start_without_an_answer_that_fell_back_can_be_pressed_again_at_once(
    launch_time: str,
) -> None:
    """Before a sweep has looked: it was our start, not one of others."""
    world = stopped()
    world.ec2.instant = False
    world.ec2.lost_answers.add("start")
    before = world.instance.launch_time
    undo(world)
    launched = before if launch_time == "same" else NOW + timedelta(minutes=1)
    world.ec2.fall_back(world.ref.instance_id, KEY_ERROR, launch_time=launched)

    answer = undo(world, "bob")

    assert (True, 2, "bob") == (answer.done, starts(world), last_try(world).asked_by)


def test_started_again_is_said_only_once_it_was_seen_running() -> None:
    """Not when EC2 accepts the start, and not while it is pending."""
    world = stopped()
    world.ec2.instant = False
    undo(world)
    see(world)
    assert (None, []) == (episode_of(world).undo, kinds(world))
    assert world.ref == world.state.record(TARGET, world.ref.instance_id).starting

    world.change_instance(state="running")
    world.clock.moment += timedelta(minutes=2)
    see(world)
    see(world)

    episode = episode_of(world)
    assert Undo("ada", world.clock.moment) == episode.undo
    assert [AlertKind.UNDONE] == kinds(world)


@pytest.mark.parametrize("launch_time", ["same", "later"])
@pytest.mark.parametrize(
    "reason",
    [
        "Client.InternalError: Client error on launch",
        "Client.InvalidKMSKey.InvalidState: The KMS key provided is in an incorrect state",
        "Client.VolumeLimitExceeded: Volume limit exceeded",
        "Server.InsufficientInstanceCapacity: Insufficient capacity to satisfy the request",
        "Server.InternalError: Internal error on launch",
        "Server.SpotInstanceShutdown",
        "",
    ],
)
def test_a_start_that_ec2_takes_back_is_said_with_its_reason_and_opens_the_button(
    launch_time: str, reason: str
) -> None:
    """Whatever launch time EC2 then shows. Nobody reads that it was started again."""
    world = stopped()
    world.ec2.instant = False
    before = world.instance.launch_time
    undo(world)
    launched = before if launch_time == "same" else NOW + timedelta(minutes=1)
    world.ec2.fall_back(world.ref.instance_id, reason, launch_time=launched)

    see(world)

    episode = episode_of(world)
    assert (StartStatus.FELL_BACK, None) == (last_try(world).status, episode.undo)
    assert [AlertKind.START_FAILED] == kinds(world)
    assert (reason or "EC2 gives no reason") in str(world.announcer.sent[0].lines)
    assert episode.can_be_started
    answer = undo(world, "bob")
    assert (True, 2) == (answer.done, starts(world))
    assert "already" not in answer.text


def hear_of_a_stop(world: World) -> str:
    """EC2's event that the instance is stopped reaches the function that starts instances."""
    return looker(world)(TARGET.account, TARGET.region, world.ref.instance_id)


def test_a_start_that_ec2_takes_back_is_said_by_its_event_at_once_and_once() -> None:
    """With EC2's reason, which the event lacks. No sweep has to come first, and none repeats it."""
    world = stopped()
    world.ec2.instant = False
    undo(world)
    world.ec2.fall_back(world.ref.instance_id, KEY_ERROR)

    seen = [hear_of_a_stop(world), hear_of_a_stop(world)]
    see(world)

    assert ["fell-back", "not followed"] == seen
    assert [AlertKind.START_FAILED] == kinds(world)
    assert KEY_ERROR in str(world.announcer.sent[0].lines)
    assert episode_of(world).can_be_started
    assert 1 == starts(world)


def test_a_late_event_of_the_stop_itself_ends_no_start() -> None:
    """EC2 shows the instance as it is by now: it is starting."""
    world = stopped()
    world.ec2.instant = False
    assert "not followed" == hear_of_a_stop(world)
    undo(world)
    assert "accepted" == hear_of_a_stop(world)
    assert (StartStatus.ACCEPTED, []) == (last_try(world).status, kinds(world))


def test_an_event_of_a_stop_by_others_ends_a_start_without_a_message() -> None:
    world = stopped()
    undo(world)
    world.clock.moment += timedelta(minutes=3)
    world.ec2.stop(TARGET, world.ref.instance_id, dry_run=False)

    assert "overtaken" == hear_of_a_stop(world)
    assert (StartStatus.OVERTAKEN, []) == (last_try(world).status, kinds(world))


def test_an_event_about_an_instance_without_a_start_costs_one_read() -> None:
    """Events carry no tags, so those of all instances come."""
    world = stopped()
    world.ec2.calls.clear()
    assert "not followed" == looker(world)(TARGET.account, TARGET.region, "i-0000000000000000f")
    assert [] == world.ec2.calls


def test_a_refusal_after_a_start_that_fell_back_leaves_the_button_open() -> None:
    """The launch time that EC2 shows is of our own start: nobody else started the instance."""
    world = stopped()
    world.ec2.instant = False
    undo(world)
    launched = NOW + timedelta(minutes=1)
    world.ec2.fall_back(world.ref.instance_id, KEY_ERROR, launch_time=launched)
    see(world)
    world.ec2.failures["start"] = [start_error("VcpuLimitExceeded"), start_error("Blocked")]

    first = undo(world, "bob")
    second = undo(world, "bob")
    third = undo(world, "bob")

    assert "VcpuLimitExceeded" in first.text
    assert "Blocked" in second.text
    assert (True, 4) == (third.done, starts(world))


def test_a_press_sees_that_a_start_fell_back_without_waiting_for_a_sweep() -> None:
    """And starts it again."""
    world = stopped()
    world.ec2.instant = False
    undo(world)
    world.ec2.fall_back(world.ref.instance_id, "Client.InternalError: Client error on launch")

    answer = undo(world, "bob")

    assert (True, 2, "bob") == (answer.done, starts(world), last_try(world).asked_by)
    assert [AlertKind.START_FAILED] == kinds(world)


@pytest.mark.parametrize(
    "transition", ["Server.InternalError", "Server.SpotInstanceShutdown (2026-11-20 12:03:00 GMT)"]
)
def test_a_new_reason_of_ec2_counts_beside_the_user_stop_of_before(transition: str) -> None:
    """EC2 may keep the code of our stop: the start fell back, and no user stopped the instance."""
    world = stopped()
    world.ec2.instant = False
    undo(world)
    world.ec2.fall_back(
        world.ref.instance_id,
        "Client.UserInitiatedShutdown: User initiated shutdown",
        state_transition_reason=transition,
    )

    see(world)

    assert (StartStatus.FELL_BACK, [AlertKind.START_FAILED]) == (
        last_try(world).status,
        kinds(world),
    )
    assert "Server." in f"{last_try(world).code} {last_try(world).words}"
    assert undo(world, "bob").done


def test_the_same_reason_twice_in_a_row_ends_the_second_try_as_well() -> None:
    """EC2's record then looks as before the call; it counts once the call can have no effect."""
    world = stopped()
    world.ec2.instant = False
    for _ in range(2):
        undo(world)
        world.ec2.fall_back(world.ref.instance_id, "Client.InternalError: Client error on launch")
        world.clock.moment += UNDER_WAY_FOR
        see(world)
        assert last_try(world).has_failed
    assert episode_of(world).can_be_started


def test_what_others_stop_before_it_was_seen_running_is_theirs() -> None:
    """It was no fall-back, nobody reads that it was started, and the button leaves it alone."""
    world = stopped()
    undo(world)
    world.clock.moment += timedelta(minutes=3)
    world.ec2.stop(TARGET, world.ref.instance_id, dry_run=False)

    see(world)

    assert (StartStatus.OVERTAKEN, []) == (last_try(world).status, kinds(world))
    assert "by others since" in undo(world, "bob").text


@pytest.mark.parametrize("state", ["terminated", "shutting-down", None])
def test_what_is_terminated_before_it_runs_is_no_longer_followed(state: str | None) -> None:
    world = stopped()
    world.ec2.instant = False
    undo(world)
    if state is None:
        world.ec2.instances.clear()
    else:
        world.change_instance(state=state)

    see(world)

    assert (StartStatus.OVERTAKEN, []) == (last_try(world).status, kinds(world))
    assert world.state.record(TARGET, world.ref.instance_id).starting is None


def test_a_refusal_for_one_reason_is_sent_once() -> None:
    """The message has the same id; the person who presses again reads the reason on the page."""
    world = stopped()
    world.ec2.failures["start"] = [
        start_error("VcpuLimitExceeded"),
        start_error("VcpuLimitExceeded"),
        start_error("InsufficientInstanceCapacity", 500),
    ]

    for _ in range(3):
        undo(world)

    first, second, third = [alert.dedup_id for alert in world.announcer.sent]
    assert (True, False) == (first == second, first == third)


@pytest.mark.parametrize(
    "error",
    [
        Throttled("rate", operation="sts:AssumeRole", code="Throttling"),
        Unavailable("no answer", operation="sts:AssumeRole"),
    ],
)
def test_a_role_that_cannot_be_assumed_at_the_moment_refuses_nothing(error: CloudError) -> None:
    """The same press may succeed a minute later."""
    world = stopped()
    world.ec2.failures["start"] = [error]

    assert undo(world).done
    assert (StartStatus.ASKED, []) == (last_try(world).status, kinds(world))
    assert episode_of(world).can_be_started


def test_a_role_that_does_not_trust_the_function_is_a_refusal() -> None:
    """With the words of STS: an administrator must change something."""
    world = stopped()
    world.ec2.failures["start"] = [
        AccessDenied("no", operation="sts:AssumeRole", code="AccessDenied", words="not trusted")
    ]

    answer = undo(world)

    assert (False, True) == (answer.done, "AccessDenied: not trusted" in answer.text)
    assert StartStatus.REFUSED is last_try(world).status
    # EC2 was not asked, so nothing says that it refused.
    (alert,) = world.announcer.sent
    record = start_text(last_try(world), "UTC", NOW)
    for text in (answer.text, f"{alert.subject} {alert.lines}", str(record)):
        assert "EC2 refused" not in text
        assert "EC2's reason" not in text
        assert "stacks/member.yaml" in text
        assert "-starter" in text


def test_a_look_that_the_role_does_not_allow_says_what_to_do() -> None:
    """The look comes first, so most often it is the look that meets a role that is missing."""
    world = stopped()
    world.ec2.failures["describe"] = [
        AccessDenied("no", operation="sts:AssumeRole", code="AccessDenied", words="not trusted")
    ]

    answer = undo(world)

    assert (False, 0) == (answer.done, starts(world))
    assert "sts:AssumeRole: AccessDenied: not trusted" in answer.text
    assert "stacks/member.yaml" in answer.text


def test_a_record_that_cannot_be_read_is_no_uncertain_start() -> None:
    """EC2 refuses to describe the instance, so it was not asked to start it."""
    world = stopped()
    world.ec2.failures["describe"] = [start_error("UnauthorizedOperation", 403)]

    answer = undo(world)

    assert (False, 0) == (answer.done, starts(world))
    assert f"UnauthorizedOperation: {WORDS}" in answer.text


def test_only_the_call_itself_can_be_refused_by_ec2() -> None:
    """Codes without a letter and empty ones are none of EC2's refusals."""
    assert is_refusal(start_error("VcpuLimitExceeded"))
    assert is_refusal(CloudError("no", operation="sts:AssumeRole", code="AccessDenied"))
    for error in (
        start_error(""),
        start_error("400"),
        start_error("Not A Code"),
        Unavailable("no answer", operation="sts:AssumeRole"),
        Unavailable("no answer", operation="ec2:StartInstances"),
    ):
        assert not is_refusal(error)


def test_ec2_s_words_are_one_line_that_people_can_read() -> None:
    """Without the part that only an administrator can decode, and not longer than a paragraph."""
    encoded = "You are not authorized. Encoded authorization failure message: " + "x" * 900
    assert "You are not authorized." == words_of_ec2(encoded)
    assert "two lines" == words_of_ec2("two\nlines")
    assert ("y" * 400, "y" * 399 + "…") == (words_of_ec2("y" * 400), words_of_ec2("y" * 401))


@pytest.mark.parametrize(
    ("code", "part"),
    [
        ("VcpuLimitExceeded", "higher quota"),
        ("InvalidParameterValue", "root volume must be attached"),
        ("InsufficientFreeAddressesInSubnet", "address in its subnet"),
        ("InsufficientInstanceCapacity", "try again later"),
        ("Server.InsufficientInstanceCapacity", "try again later"),
        ("Client.InvalidKMSKey.InvalidState", "Enable the KMS key"),
        ("Client.InternalError", "KMS key of each encrypted volume"),
        ("Server.InternalError", "in a few minutes"),
        ("UnauthorizedOperation", "administrator"),
        ("AuthFailure", "may be suspended"),
        ("OptInRequired", "may be suspended"),
        ("SomethingNew", ""),
        ("", ""),
    ],
)
def test_what_to_do_is_said_where_it_is_known(code: str, part: str) -> None:
    """EC2's words alone otherwise."""
    assert part in advice_on(code)
    assert bool(part) == bool(advice_on(code))


def state_changed(world: World, state: str, at: UtcDatetime) -> str:
    """EC2's event of a change of state."""
    return state_change(world)(TARGET.account, TARGET.region, world.ref.instance_id, state, at)


def test_the_event_that_it_runs_is_enough() -> None:
    """Without waiting for a sweep; a second event and the next sweep say nothing more."""
    world = stopped()
    world.ec2.instant = False
    undo(world)
    at = NOW + timedelta(minutes=1)

    assert "started again" in state_changed(world, "running", at)
    assert "started again" not in state_changed(world, "running", at)

    assert Undo("ada", at) == episode_of(world).undo
    assert [AlertKind.UNDONE] == kinds(world)


@pytest.mark.parametrize("state", ["pending", "stopping", "stopped", "shutting-down"])
def test_other_events_leave_the_start_to_the_sweep(state: str) -> None:
    """They do not give EC2's reason."""
    world = stopped()
    world.ec2.instant = False
    undo(world)

    state_changed(world, state, NOW + timedelta(minutes=1))

    assert (StartStatus.ACCEPTED, []) == (last_try(world).status, kinds(world))


def test_a_late_event_of_an_earlier_run_is_no_start() -> None:
    """Events come in any order."""
    world = stopped()
    world.ec2.instant = False
    undo(world)

    state_changed(world, "running", NOW - timedelta(hours=3))

    assert episode_of(world).undo is None


SHORTLY = timedelta(minutes=4)
"""After it was seen running: EC2 may still take a start back."""


def seen_running(world: World) -> None:
    """The start of `ada`, seen running a minute later."""
    world.ec2.instant = False
    undo(world)
    world.change_instance(state="running")
    world.clock.moment += timedelta(minutes=1)
    see(world)
    assert [AlertKind.UNDONE] == kinds(world)


@pytest.mark.parametrize("look", ["sweep", "event"])
@pytest.mark.parametrize("reason", [KEY_ERROR, "Server.SpotInstanceShutdown", ""])
def test_a_start_that_ran_first_and_stops_within_minutes_is_no_start(
    look: str, reason: str
) -> None:
    """EC2 shows some starts as running before it takes them back. The record says so, with EC2's
    reason, and the button opens again."""
    world = stopped()
    seen_running(world)
    ran_at = world.clock.moment
    world.clock.moment += SHORTLY
    world.ec2.fall_back(world.ref.instance_id, reason)

    for _ in range(2):
        if look == "sweep":
            see(world)
        else:
            hear_of_a_stop(world)

    episode = episode_of(world)
    noted = last_try(world)
    assert (StartStatus.FELL_BACK, ran_at, None) == (noted.status, noted.ran_at, episode.undo)
    assert [AlertKind.UNDONE, AlertKind.START_FAILED] == kinds(world)
    alert = world.announcer.sent[-1]
    assert "notebook started, and is stopped again" == alert.subject
    assert "and then went back to stopped" in str(alert.lines)
    assert (reason or "EC2 gives no reason") in str(alert.lines)
    # The sweep goes on with the saving of the stop, and then follows the start no more.
    assert world.ref == world.state.record(TARGET, world.ref.instance_id).starting
    page = " ".join(start_text(noted, "UTC", NOW))
    assert "and then went back to stopped" in page
    assert (reason or "EC2 gives no reason") in page
    answer = undo(world, "bob")
    assert (True, 2) == (answer.done, starts(world))


def test_a_press_sees_that_a_start_which_ran_first_is_stopped_again() -> None:
    """Without waiting for a sweep or an event."""
    world = stopped()
    seen_running(world)
    world.ec2.fall_back(world.ref.instance_id, KEY_ERROR)

    answer = undo(world, "bob")

    assert (True, 2, "bob") == (answer.done, starts(world), last_try(world).asked_by)


def test_what_others_stop_after_it_ran_was_started_all_the_same() -> None:
    """Also within those minutes: a person stopped it, so "Started again by" stays true."""
    world = stopped()
    seen_running(world)
    world.clock.moment += SHORTLY
    world.ec2.instant = True
    world.ec2.stop(TARGET, world.ref.instance_id, dry_run=False)

    assert "running" == hear_of_a_stop(world)

    assert episode_of(world).undo is not None
    assert (StartStatus.RUNNING, [AlertKind.UNDONE]) == (last_try(world).status, kinds(world))
    assert world.state.record(TARGET, world.ref.instance_id).starting is None


@pytest.mark.parametrize("was_seen_running", [True, False])
def test_what_shuts_itself_down_ran_and_was_not_taken_back_by_ec2(was_seen_running: bool) -> None:
    """A script, a schedule or a person inside it did that: people read so, and what to look for.
    Its button opens again."""
    world = stopped()
    if was_seen_running:
        seen_running(world)
    else:
        world.ec2.instant = False
        undo(world)
    world.clock.moment += SHORTLY
    world.ec2.fall_back(
        world.ref.instance_id, "Client.InstanceInitiatedShutdown: Instance initiated shutdown"
    )

    see(world)

    noted = last_try(world)
    assert (StartStatus.FELL_BACK, True) == (noted.status, episode_of(world).can_be_started)
    alert = world.announcer.sent[-1]
    assert "notebook ran, and its own operating system shut it down" == alert.subject
    page = " ".join(start_text(noted, "UTC", NOW))
    for text in (" ".join(alert.lines), page):
        assert "EC2 started the instance, and" in text
        assert "Client.InstanceInitiatedShutdown" in text
        assert "Find out what shuts it down from inside" in text
        assert "fell back" not in text
        assert "taken back" not in text


@pytest.mark.parametrize(
    ("after", "falls_back"), [(MAY_FALL_BACK_FOR, True), (MAY_FALL_BACK_FOR + SECOND, False)]
)
def test_what_stops_later_was_started(after: timedelta, falls_back: bool) -> None:
    """An instance that shuts itself down hours later had been started."""
    world = stopped()
    seen_running(world)
    world.clock.moment += after
    world.ec2.fall_back(world.ref.instance_id, "Client.InstanceInitiatedShutdown: by itself")

    see(world)

    assert (episode_of(world).undo is None) is falls_back
    followed = world.state.record(TARGET, world.ref.instance_id).starting
    assert (world.ref if falls_back else None) == followed


def test_what_runs_on_is_looked_at_only_for_some_minutes() -> None:
    """Then nothing follows it any more."""
    world = stopped()
    seen_running(world)
    world.clock.moment += MAY_FALL_BACK_FOR
    see(world)
    assert world.ref == world.state.record(TARGET, world.ref.instance_id).starting

    world.clock.moment += SECOND
    see(world)

    assert world.state.record(TARGET, world.ref.instance_id).starting is None
    assert [AlertKind.UNDONE] == kinds(world)


@pytest.mark.parametrize("status", [StartStatus.ASKED, StartStatus.FELL_BACK])
def test_a_start_that_people_asked_for_is_none_of_others(status: StartStatus) -> None:
    """Its event may come while EC2's answer is lost, or after the instance fell back: two starts by
    others would call the escalation contacts."""
    world = stopped()
    world.ec2.instant = False
    if status is StartStatus.ASKED:
        world.ec2.failures["start"] = [Unavailable("no answer", operation="ec2:StartInstances")]
    undo(world)
    at = NOW + timedelta(minutes=1)
    if status is StartStatus.FELL_BACK:
        world.clock.moment += timedelta(minutes=2)
        world.ec2.fall_back(world.ref.instance_id, KEY_ERROR)
        see(world)
    assert status is last_try(world).status

    assert "booked" in state_changed(world, "running", at)

    assert () == world.state.record(TARGET, world.ref.instance_id).restarts


@pytest.mark.parametrize("failed", ["refused", "fell-back"])
def test_a_later_start_by_others_is_theirs(failed: str) -> None:
    """After a start of ours that came to nothing."""
    world = stopped()
    world.ec2.instant = False
    if failed == "refused":
        world.ec2.failures["start"] = [start_error("VcpuLimitExceeded")]
    undo(world)
    if failed == "fell-back":
        world.ec2.fall_back(world.ref.instance_id, KEY_ERROR)
        see(world)

    state_changed(world, "running", NOW + timedelta(hours=2))

    (restart,) = world.state.record(TARGET, world.ref.instance_id).restarts
    assert world.ref == restart.stopped_in
