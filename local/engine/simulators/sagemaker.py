"""SageMaker as moto has it: models, endpoints and their configurations, notebook instances with
lifecycle configurations, domains, HyperPod clusters, tags.

moto is loaded at the first call, which takes a second. Two things differ from AWS and are repaired:

- AWS: every instance type of the service model can be asked for. moto: a list of 2019.
- AWS: resources may have been there for weeks. moto: everything begins now. `set_times` puts it
  back.

It must not know the governor.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from local.engine.simulators.faults import AwsError

_HOST = "https://api.sagemaker.{region}.amazonaws.com/"
_STORES = {"endpoint": "endpoints", "notebook-instance": "notebook_instances"}
"""Where moto keeps the resources whose times can be set."""
_lock = threading.RLock()


class SageMakerSimulator:
    """Calls of SageMaker that moto answers."""

    def __init__(self) -> None:
        self._is_loaded = False

    def knows(self, action: str) -> bool:
        """Return whether moto answers this operation."""
        self._load()
        from moto.core.responses import method_names_from_class
        from moto.core.utils import camelcase_to_underscores
        from moto.sagemaker.responses import SageMakerResponse

        return camelcase_to_underscores(action) in method_names_from_class(SageMakerResponse)

    def answer(
        self, account: str, region: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of moto's answer to one call."""
        self._load()
        from moto.core.request import Request
        from moto.sagemaker.responses import SageMakerResponse

        url = _HOST.format(region=region)
        given = {**headers, "x-moto-account-id": account}
        request = Request.from_primitives("POST", url, given, body)
        with _lock:
            status, answered, text = SageMakerResponse.dispatch(request, url, request.headers)
        content = {"Content-Type": "application/x-amz-json-1.1"}
        error_type = answered.get("x-amzn-errortype")
        if error_type:
            content["x-amzn-errortype"] = error_type
        return int(status), content, text if isinstance(text, bytes) else text.encode()

    def set_times(
        self, account: str, region: str, kind: str, name: str, created: str, modified: str
    ) -> None:
        """Put the creation and the last change of a resource back. Raises: AwsError for one that
        is not there."""
        self._load()
        from moto.sagemaker.models import sagemaker_backends

        with _lock:
            store = getattr(sagemaker_backends[account][region], _STORES[kind])
            if name not in store:
                raise AwsError("ValidationException", f"Could not find {kind} {name!r}.")
            store[name].creation_time = _naive(created)
            store[name].last_modified_time = _naive(modified)

    def clear(self) -> None:
        """Forgets everything, in all accounts."""
        if self._is_loaded:
            from moto.sagemaker.models import sagemaker_backends

            sagemaker_backends.reset()

    def _load(self) -> None:
        """Load moto's SageMaker and let it know all instance types of the service model."""
        with _lock:
            if self._is_loaded:
                return
            from moto.core.utils import get_service_model
            from moto.sagemaker import models

            shapes = get_service_model("sagemaker")
            hosting = frozenset(shapes.shape_for("ProductionVariantInstanceType").enum)
            notebook = frozenset(shapes.shape_for("InstanceType").enum)
            models.FakeEndpointConfig.validate_instance_type = _check_of(hosting)
            models.FakeSagemakerNotebookInstance.validate_instance_type = _check_of(notebook)
            self._is_loaded = True


def _check_of(types: frozenset[str]) -> Any:
    """Return a method that refuses every instance type but these."""

    def check(_: Any, instance_type: str) -> None:
        from moto.sagemaker.exceptions import ValidationError

        if instance_type not in types:
            words = "failed to satisfy constraint: Member must satisfy enum value set"
            raise ValidationError(f"Value '{instance_type}' at 'instanceType' {words}")

    return check


def _naive(text: str) -> datetime:
    """Return a time in UTC without its zone, as moto keeps times."""
    return datetime.fromisoformat(text).replace(tzinfo=None)
