"""Runs a function on a sample event in AWS's Lambda emulator: `invoke.py FUNCTION
events/FUNCTION/case.json`.

The function finds a freshly deployed stack in the local cloud behind it, and in it what the sample
needs (docs/develop.md); the sample's times are moved to now. Prints its answer, and beside it what
was made for the sample, whom it notified of what, and which commands it sent to instances. Exit
status 1 when it raised.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "layers" / "shared")]

from local.demo.fleet import demo_fleet  # noqa: E402
from local.demo.oidc import OidcServer  # noqa: E402
from local.demo.receivers import Receivers  # noqa: E402
from local.demo.samples import happening  # noqa: E402
from local.demo.scene import Scene, deploy_scene  # noqa: E402
from local.demo.seeds import POLICY, physical_name  # noqa: E402
from local.engine.cloud import LocalCloud, LocalCloudError  # noqa: E402 - the project is not installed
from local.engine.runtime import LambdaRuntime, RuntimeUnavailableError, is_error  # noqa: E402
from scripts.invoke_arguments import WrongArgumentError, given  # noqa: E402


def main(arguments: list[str]) -> int:
    """Exit status: 0 answered, 1 the function raised, 2 the call itself was wrong."""
    try:
        name, event = given(*arguments)
        with _stack(name) as (scene, trust):
            answer = _invoke(scene, trust, name, event)
    except (WrongArgumentError, LocalCloudError, RuntimeUnavailableError) as error:
        print(f"make invoke: {error}", file=sys.stderr)
        return 2
    print(json.dumps(answer, indent=2))
    return 1 if is_error(answer) else 0


@contextmanager
def _stack(name: str) -> Iterator[tuple[Scene, Path]]:
    """A deployed stack with the demo's fleet, and what a function must trust beyond the public
    authorities; with an issuer for the function that is deployed only with one."""
    with ExitStack() as opened:
        receivers = opened.enter_context(Receivers())
        trust, more = receivers.certificate, {}
        issuer = None
        if name == "sign_in":
            server = opened.enter_context(OidcServer())
            issuer = server.issuer
            trust = Path(opened.enter_context(tempfile.TemporaryDirectory())) / "both.pem"
            trust.write_bytes(server.certificate.read_bytes() + receivers.certificate.read_bytes())
            more = {"OidcIssuer": issuer.url, "OidcClientId": issuer.client_id}
        cloud = opened.enter_context(LocalCloud(trust=trust))
        scene = deploy_scene(cloud, receivers, mode="ask", policy=POLICY, more=more)
        if issuer is not None:
            issuer.redirect_uri = scene.outputs["SignInRedirectUri"]
        scene.launch(demo_fleet())
        yield scene, trust


def _invoke(scene: Scene, trust: Path, name: str, event: Any) -> object:
    event, notes = happening(scene, name, event, datetime.now(tz=UTC))
    _say(f"for this sample: {note}" for note in notes)
    physical = physical_name(scene, name)
    configured = scene.cloud.client("lambda").get_function_configuration(FunctionName=physical)
    trusted = {"SSL_CERT_FILE": str(trust)}
    environment = {**configured["Environment"]["Variables"], **scene.cloud.environment(), **trusted}
    before = len(scene.read_mail())
    with LambdaRuntime(ROOT / "functions" / name, environment) as runtime:
        answer = runtime.invoke(event)
    _say(f"notified {mail['owner']}: {mail['subject']}" for mail in scene.read_mail()[before:])
    _say(
        f"sent {sent['DocumentName']} to {', '.join(sent['InstanceIds'])}: {sent['Parameters']}"
        for sent in scene.simulation.commands()
    )
    return answer


def _say(lines: Iterable[str]) -> None:
    """Beside the answer, which programs may read."""
    for line in lines:
        print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
