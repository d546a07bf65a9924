"""Keys of links rotate without a link being refused, and a leaked one is out after two
rotations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import parse_qsl, urlsplit

import pytest

from governor.approvals.rotate_keys import RotateKeys, RotationStep, rotated
from governor.approvals.rules.links import LinkSigner
from governor.core.errors import ConfigurationError, LinkForged
from tests.builders import NOW, earlier_link

BORN: Mapping[str, str] = {"current": "k1", "k1": "a" * 64}
VERSION = "0b8b6d6e-6a1e-4f0c-9a57-5d3f3a1c2b4d"


@dataclass
class FakeSecret:
    """The port, in memory."""

    versions: dict[str, Mapping[str, str] | None] = field(
        default_factory=lambda: {"v0": BORN, VERSION: None}
    )
    labels: dict[str, frozenset[str]] = field(
        default_factory=lambda: {
            "v0": frozenset({"AWSCURRENT"}),
            VERSION: frozenset({"AWSPENDING"}),
        }
    )

    def stages(self, version: str) -> frozenset[str]:
        """As the port says."""
        return self.labels.get(version, frozenset())

    def current(self) -> Mapping[str, str]:
        """As the port says."""
        name = next(name for name, labels in self.labels.items() if "AWSCURRENT" in labels)
        return self.versions[name] or {}

    def pending(self, version: str) -> Mapping[str, str] | None:
        """As the port says."""
        return self.versions[version]

    def put_pending(self, version: str, document: Mapping[str, str]) -> None:
        """As the port says."""
        self.versions[version] = document

    def promote(self, version: str) -> None:
        """As the port says."""
        self.labels = {"v0": frozenset({"AWSPREVIOUS"}), version: frozenset({"AWSCURRENT"})}


def signer(document: Mapping[str, str]) -> LinkSigner:
    """A function that holds this document."""
    return LinkSigner(lambda: document, "https://api.example.com")


def is_good(link: str, document: Mapping[str, str]) -> bool:
    """Return whether a function that holds this document accepts the link."""
    try:
        signer(document).check("id", dict(parse_qsl(urlsplit(link).query)), NOW)
    except LinkForged:
        return False
    return True


def generations(number: int) -> list[Mapping[str, str]]:
    """The documents of so many rotations, the first one as the stack makes it."""
    found: list[Mapping[str, str]] = [BORN]
    for _ in range(number):
        found.append(rotated(found[-1]))
    return found


def test_every_link_is_good_before_and_after_the_rotation_next_to_its_own() -> None:
    """Functions hold the document before for a minute; people hold links for days."""
    documents = generations(6)
    for number, document in enumerate(documents):
        link = earlier_link(signer(document), "id", "alice@example.com", NOW + timedelta(days=1))
        assert is_good(link, documents[max(0, number - 1)])
        assert is_good(link, documents[min(6, number + 1)])


def test_a_key_is_out_after_the_second_rotation_after_it_signed() -> None:
    """So many times somebody rotates when a key has leaked."""
    documents = generations(6)
    link = earlier_link(signer(documents[2]), "id", "alice@example.com", NOW + timedelta(days=1))

    assert [True, True, False] == [is_good(link, document) for document in documents[2:5]]


def test_never_more_than_three_keys() -> None:
    """The one before, the one that signs, the next one."""
    for document in generations(6)[2:]:
        assert 3 == len([name for name in document if name.startswith("k")])


def test_a_new_key_is_long_and_never_the_same() -> None:
    """64 characters of 64."""
    keys = [document[document["next"]] for document in (rotated(BORN), rotated(BORN))]
    assert ([64, 64], 2) == ([len(key) for key in keys], len(set(keys)))


def test_the_steps_of_a_rotation_may_each_be_repeated() -> None:
    """Secrets Manager repeats what it did not see succeed; one key is made."""
    secret = FakeSecret()
    rotate = RotateKeys(secret)
    rotate(RotationStep.CREATE, VERSION)
    made = secret.pending(VERSION)
    for step in RotationStep:
        rotate(step, VERSION)
        rotate(step, VERSION)

    assert made == secret.current()
    assert {**BORN, "next": "k2", "k2": secret.current()["k2"]} == made


@pytest.mark.parametrize("version", ["unknown", "v9"])
def test_a_version_that_is_not_rotated_is_refused(version: str) -> None:
    """Nobody can make the function rotate but Secrets Manager."""
    with pytest.raises(ConfigurationError, match="not waiting"):
        RotateKeys(FakeSecret())(RotationStep.CREATE, version)


@pytest.mark.parametrize(
    "pending",
    [
        {},
        {"current": "k9", "next": "k2", "k1": "a" * 64, "k2": "b" * 64},
        {"current": "k2", "next": "k3", "k2": "b" * 64, "k3": "c" * 64},
        {"current": "k1", "next": "k2", "k1": "x" * 64, "k2": "b" * 64},
    ],
    ids=["empty", "names no key", "forgets the key that signs", "changes the key that signs"],
)
@pytest.mark.parametrize("step", [RotationStep.TEST, RotationStep.FINISH])
def test_a_document_that_would_refuse_links_never_comes_into_force(
    pending: Mapping[str, str], step: RotationStep
) -> None:
    """Whoever wrote it."""
    secret = FakeSecret()
    secret.put_pending(VERSION, pending)
    with pytest.raises(ConfigurationError):
        RotateKeys(secret)(step, VERSION)
    assert BORN == secret.current()


def test_a_document_without_keys_is_not_rotated() -> None:
    """It says so instead of making up a key that would refuse all links."""
    with pytest.raises(ConfigurationError, match="names no current key"):
        rotated({"current": "k1"})


@pytest.mark.parametrize("name", ["next", "current"])
def test_what_points_to_a_key_is_no_key(name: str) -> None:
    """A link that names it is refused like any other that is not ours."""
    (document,) = generations(2)[2:]
    link = earlier_link(signer(document), "id", "alice@example.com", NOW + timedelta(days=1))
    fields = {**dict(parse_qsl(urlsplit(link).query)), "k": name}
    with pytest.raises(LinkForged):
        signer(document).check("id", fields, NOW)
