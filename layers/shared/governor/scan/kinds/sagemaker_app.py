"""SageMaker Studio apps, such as JupyterLab, which are shown with their price and idle shutdown.

They are never called idle: `LastUserActivityTimestamp` is set by health checks, too, so it says
nothing of activity. Source: SageMaker API reference, DescribeApp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import join
from typing import Any, NamedTuple

from governor.core.units import UsdPerHour, as_utc, printable, span
from governor.scan.kind import Kind, Place
from governor.scan.kinds.sagemaker.hardware import hardware, is_accelerated
from governor.scan.kinds.sagemaker.price_list import GET_PRODUCTS, STUDIO, usd_per_hour
from governor.scan.kinds.sagemaker.reading import SERVICE, described
from governor.scan.model import Finding, Judgment, Resource, Strength

_LIST = "sagemaker:ListApps"
_DESCRIBE_DOMAIN = "sagemaker:DescribeDomain"
_DESCRIBE_PROFILE = "sagemaker:DescribeUserProfile"
_DESCRIBE_SPACE = "sagemaker:DescribeSpace"
_TOPIC = "SageMaker Studio apps"
_SETTINGS_TOPIC = "idle shutdown of SageMaker Studio apps"
_PAGE = 100
_SETTINGS_BY_APP = {
    "JupyterLab": "JupyterLabAppSettings",
    "CodeEditor": "CodeEditorAppSettings",
}
"""The settings of the apps that have an idle shutdown."""
_Key = tuple[tuple[str, str], ...]


class _Settings(NamedTuple):
    """Answers about domains, user profiles and spaces, by their parameters. `None`: not read."""

    domains: Mapping[_Key, Any]
    profiles: Mapping[_Key, Any]
    spaces: Mapping[_Key, Any]


@dataclass(frozen=True, slots=True)
class App(Resource):
    """An app of Studio that is in service."""

    ml_type: str = ""
    domain_id: str = ""
    app_type: str = ""
    app_name: str = ""
    user_profile: str | None = None
    """The user profile that runs it, or that owns its space; `None` for a shared space."""
    space: str | None = None
    idle_shutdown: str = "unknown"
    """Its idle shutdown in words."""


class SageMakerApps(Kind[App, None]):
    """Apps of Studio in service on accelerated types. AWS publishes no figure about an app."""

    name = "sagemaker-app"
    words = _TOPIC
    service = SERVICE
    operations = (_LIST, _DESCRIBE_DOMAIN, _DESCRIBE_PROFILE, _DESCRIBE_SPACE, GET_PRODUCTS)

    def list(self, place: Place) -> Sequence[App]:
        """Return the apps; empty if there are none. Raises: CloudError."""

        def read(record: Any) -> App | None:
            """Return an app; `None` if it is not in service, or has no accelerators."""
            return _app(place, record)

        apps: list[App] = []
        for page in place.pages(_LIST, MaxResults=_PAGE):
            apps += place.read_each(_TOPIC, _LIST, page.get("Apps") or (), read)
        return _with_settings(place, apps) if apps else []

    def price(self, place: Place, resource: App) -> UsdPerHour | None:
        """Return the list price; `None` if it is not known."""
        return usd_per_hour(place, resource.ml_type, f"{STUDIO}{resource.app_type}-")

    def own_judgment(self, place: Place, resource: App, measured: None) -> Judgment:
        """Return the judgment that the app's activity is not measured, and what is known
        instead."""
        running = f"{resource.app_type} running"
        if resource.since is not None:
            running += f" for {span(place.now - resource.since)}"
        evidence = f"{running}, idle shutdown {resource.idle_shutdown}; activity not measured"
        return Judgment(Finding.NOT_MEASURED, Strength.NONE, evidence)

    def own_command(self, resource: App, judgment: Judgment) -> str:
        """Return the command that shows the app."""
        app = ("--app-type", resource.app_type, "--app-name", resource.app_name)
        owner = ("--user-profile-name", resource.user_profile or "")
        if resource.space is not None:
            owner = ("--space-name", resource.space)
        domain = ("--domain-id", resource.domain_id)
        where = ("--region", resource.target.region)
        return join(("aws", "sagemaker", "describe-app", *where, *domain, *owner, *app))


def _app(place: Place, record: Mapping[str, Any]) -> App | None:
    """Return an app; `None` if it is not in service, or has no accelerators. Raises: LookupError,
    TypeError or ValueError for a record in another form."""
    if record.get("Status") != "InService":
        return None
    ml_type = (record.get("ResourceSpec") or {}).get("InstanceType", "")
    if not is_accelerated(ml_type):
        return None
    profile = record.get("UserProfileName")
    space = record.get("SpaceName")
    created = record.get("CreationTime")
    parts = (record["DomainId"], space or profile or "", record["AppType"], record["AppName"])
    return App(
        target=place.target,
        resource_id="/".join(parts),
        what=hardware({ml_type: 1}),
        name=printable(space or profile or record["AppName"]),
        creator=None if profile is None else printable(profile),
        since=None if created is None else as_utc(created),
        ml_type=ml_type,
        domain_id=record["DomainId"],
        app_type=record["AppType"],
        app_name=record["AppName"],
        user_profile=profile,
        space=space,
    )


def _with_settings(place: Place, apps: Sequence[App]) -> list[App]:
    """Return the apps with their owners and idle shutdown, as far as those can be read. Each
    domain, space and user profile is read once."""
    spaces = _read(place, _DESCRIBE_SPACE, apps, _space_key)
    owned = [_with_owner(app, spaces) for app in apps]
    settings = _Settings(
        domains=_read(place, _DESCRIBE_DOMAIN, owned, _domain_key),
        profiles=_read(place, _DESCRIBE_PROFILE, owned, _profile_key),
        spaces=spaces,
    )
    return [replace(app, idle_shutdown=_idle_shutdown(app, settings)) for app in owned]


def _read(
    place: Place, operation: str, apps: Sequence[App], key_of: Callable[[App], _Key]
) -> dict[_Key, Any]:
    """Return an operation's answers by the parameters that `key_of` gives for an app, each asked
    for once; `None` for one that could not be read. An empty key is not asked for."""
    parameters: dict[_Key, dict[str, str]] = {}
    for app in apps:
        key = key_of(app)
        if key:
            parameters[key] = dict(key)
    answers = described(place, _SETTINGS_TOPIC, operation, list(parameters.values()))
    return dict(zip(parameters, answers, strict=True))


def _domain_key(app: App) -> _Key:
    """Return the parameters that name the app's domain."""
    return (("DomainId", app.domain_id),)


def _profile_key(app: App) -> _Key:
    """Return the parameters that name the app's user profile; empty without one."""
    if app.user_profile is None:
        return ()
    return (("DomainId", app.domain_id), ("UserProfileName", app.user_profile))


def _space_key(app: App) -> _Key:
    """Return the parameters that name the app's space; empty without one."""
    if app.space is None:
        return ()
    return (("DomainId", app.domain_id), ("SpaceName", app.space))


def _with_owner(app: App, spaces: Mapping[_Key, Any]) -> App:
    """Return the app with the owner of its space as its creator and, unless the space is shared,
    also as its user profile. An app of a user profile, and one whose space has no known owner,
    stays as it is."""
    space = spaces.get(_space_key(app)) or {}
    sharing = (space.get("SpaceSharingSettings") or {}).get("SharingType")
    owner = (space.get("OwnershipSettings") or {}).get("OwnerUserProfileName")
    if app.user_profile is not None or owner is None:
        return app
    # In a shared space the settings of the domain apply, not those of its owner.
    profile = None if sharing == "Shared" else owner
    return replace(app, creator=printable(owner), user_profile=profile)


def _idle_shutdown(app: App, settings: _Settings) -> str:
    """Return the idle shutdown of an app in words. The user profile overrides the domain, and
    either turns it on; the space then sets the time. It is `unknown` if one of the three could not
    be read."""
    section = _SETTINGS_BY_APP.get(app.app_type)
    if section is None:
        return "not available for this app"
    domain = settings.domains.get(_domain_key(app))
    profile = settings.profiles.get(_profile_key(app))
    space = settings.spaces.get(_space_key(app))
    is_unread = (
        domain is None
        or (app.user_profile is not None and profile is None)
        or (app.space is not None and space is None)
    )
    if is_unread:
        return "unknown"
    defaults = "DefaultUserSettings" if app.user_profile is not None else "DefaultSpaceSettings"
    idle = {
        **_idle_settings(domain, defaults, section),
        **_idle_settings(profile, "UserSettings", section),
    }
    if idle.get("LifecycleManagement") != "ENABLED":
        return "off"
    of_space = _idle_settings(space, "SpaceSettings", section)
    minutes = of_space.get("IdleTimeoutInMinutes", idle.get("IdleTimeoutInMinutes"))
    return "on" if minutes is None else f"after {minutes} min"


def _idle_settings(answer: Any, settings: str, section: str) -> Mapping[str, Any]:
    """Return the idle settings in an answer about a domain, profile or space; empty if there are
    none."""
    found: Any = answer
    for field in (settings, section, "AppLifecycleManagement", "IdleSettings"):
        found = (found or {}).get(field)
    return found or {}
