"""SageMaker notebook instances, which are shown with their price and idle shutdown. They are never
called idle, because AWS publishes nothing about their activity.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import join
from typing import Any

from governor.core.units import UsdPerHour, as_utc, printable, span
from governor.scan.kind import Kind, Place
from governor.scan.kinds.sagemaker.hardware import hardware, is_accelerated
from governor.scan.kinds.sagemaker.price_list import GET_PRODUCTS, NOTEBOOK, usd_per_hour
from governor.scan.kinds.sagemaker.reading import LIST_TAGS, SERVICE, described, tags_of
from governor.scan.model import Finding, Judgment, Resource, Strength

_LIST = "sagemaker:ListNotebookInstances"
_DESCRIBE_SCRIPTS = "sagemaker:DescribeNotebookInstanceLifecycleConfig"
_TOPIC = "SageMaker notebook instances"
_PAGE = 100
_STOPS_ITSELF = re.compile(rb"auto[-_ ]?stop|stop[-_]notebook[-_]instance", re.IGNORECASE)
"""In a script that stops its own instance, such as AWS's sample `auto-stop-idle`. Nothing else of a
script is kept: it may hold secrets."""


@dataclass(frozen=True, slots=True)
class Notebook(Resource):
    """A notebook instance that is in service."""

    arn: str = ""
    ml_type: str = ""
    lifecycle_config: str | None = None
    """The name of its lifecycle configuration; `None` without one."""
    idle_shutdown: str = "off"
    """Its idle shutdown in words."""


class SageMakerNotebooks(Kind[Notebook, None]):
    """Notebook instances in service on accelerated types. AWS publishes no figure about one."""

    name = "sagemaker-notebook"
    words = _TOPIC
    service = SERVICE
    operations = (_LIST, _DESCRIBE_SCRIPTS, LIST_TAGS, GET_PRODUCTS)

    def list(self, place: Place) -> Sequence[Notebook]:
        """Return the notebook instances; empty if there are none. Raises: CloudError."""

        def read(record: Any) -> Notebook | None:
            """Return a notebook instance; `None` if it has no accelerators."""
            return _notebook(place, record)

        notebooks: list[Notebook] = []
        for page in place.pages(_LIST, StatusEquals="InService", MaxResults=_PAGE):
            records = page.get("NotebookInstances") or ()
            notebooks += place.read_each(_TOPIC, _LIST, records, read)
        return _with_tags(place, _with_idle_shutdown(place, notebooks))

    def price(self, place: Place, resource: Notebook) -> UsdPerHour | None:
        """Return the list price; `None` if it is not known."""
        return usd_per_hour(place, resource.ml_type, NOTEBOOK)

    def own_judgment(self, place: Place, resource: Notebook, measured: None) -> Judgment:
        """Return the judgment that the notebook's activity is not measured, and what is known
        instead. Call it only for one that is not exempt."""
        running = "running" if resource.since is None else _running(place, resource)
        evidence = f"{running}, idle shutdown {resource.idle_shutdown}; activity not measured"
        return Judgment(Finding.NOT_MEASURED, Strength.NONE, evidence)

    def own_command(self, resource: Notebook, judgment: Judgment) -> str:
        """Return the command that shows the notebook."""
        where = ("--region", resource.target.region)
        name = ("--notebook-instance-name", resource.resource_id)
        return join(("aws", "sagemaker", "describe-notebook-instance", *where, *name))


def _running(place: Place, notebook: Notebook) -> str:
    """Return for how long the notebook has been running, such as `running for 3 days`."""
    since = notebook.since or place.now
    return f"running for {span(place.now - since)}"


def _notebook(place: Place, record: Mapping[str, Any]) -> Notebook | None:
    """Return a notebook instance; `None` if it has no accelerators. Raises: LookupError, TypeError
    or ValueError for a record in another form."""
    ml_type = record["InstanceType"]
    if not is_accelerated(ml_type):
        return None
    name = record["NotebookInstanceName"]
    # A start changes it last: settings cannot be changed while an instance is in service.
    started = record.get("LastModifiedTime") or record.get("CreationTime")
    return Notebook(
        target=place.target,
        resource_id=name,
        what=hardware({ml_type: 1}),
        name=printable(name),
        since=None if started is None else as_utc(started),
        arn=record["NotebookInstanceArn"],
        ml_type=ml_type,
        lifecycle_config=record.get("NotebookInstanceLifecycleConfigName"),
    )


def _with_idle_shutdown(place: Place, notebooks: Sequence[Notebook]) -> list[Notebook]:
    """Return the notebook instances with their idle shutdown, which is a script in a lifecycle
    configuration. Each configuration is read once."""
    configs = []
    for notebook in notebooks:
        if notebook.lifecycle_config:
            configs.append(notebook.lifecycle_config)
    names = list(dict.fromkeys(configs))
    parameters = [{"NotebookInstanceLifecycleConfigName": name} for name in names]
    answers = described(place, "idle shutdown of notebook instances", _DESCRIBE_SCRIPTS, parameters)
    words_by_config: dict[str | None, str] = {None: "off"}
    for name, answer in zip(names, answers, strict=True):
        words_by_config[name] = _idle_shutdown(name, answer)
    with_shutdown = []
    for notebook in notebooks:
        with_shutdown.append(
            replace(notebook, idle_shutdown=words_by_config[notebook.lifecycle_config or None])
        )
    return with_shutdown


def _idle_shutdown(config_name: str, answer: Any) -> str:
    """Return the idle shutdown by a lifecycle configuration in words: `on` if one of its scripts
    stops the instance. `answer` is `None` if its scripts could not be read."""
    name = printable(config_name)
    if answer is None:
        return f"unknown (lifecycle configuration {name} not read)"
    for hook in (*(answer.get("OnStart") or ()), *(answer.get("OnCreate") or ())):
        try:
            script = base64.b64decode(hook.get("Content") or "")
        except binascii.Error:
            return f"unknown (lifecycle configuration {name} not readable)"
        if _STOPS_ITSELF.search(script):
            return f"on (lifecycle configuration {name})"
    return f"off (lifecycle configuration {name} does not stop it)"


def _with_tags(place: Place, notebooks: Sequence[Notebook]) -> list[Notebook]:
    """Return the notebook instances with their tags. One whose tags cannot be read has none, and
    that is reported."""
    arns = [notebook.arn for notebook in notebooks]
    all_tags = tags_of(place, "tags of SageMaker notebook instances", arns)
    tagged: list[Notebook] = []
    for notebook, tags in zip(notebooks, all_tags, strict=True):
        tagged.append(replace(notebook, tags=tags))
    return tagged
