"""Runs a function on a sample event in AWS's Lambda emulator: `invoke.py FUNCTION events/FUNCTION/case.json`.

The function finds a freshly deployed stack in the local cloud behind it, and in its fleet the instance that
the sample names; the sample's times are moved to now. Prints its answer, and beside it what was made for the
sample, whom it told what, and which commands it sent to instances. Exit status 1 when it raised.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from local.cloud import LocalCloud, LocalCloudError  # noqa: E402 - the project is not installed
from local.fleet import demo_fleet  # noqa: E402
from local.receivers import Receivers  # noqa: E402
from local.runtime import LambdaRuntime, RuntimeUnavailableError, is_error  # noqa: E402
from local.samples import happening  # noqa: E402
from local.scene import STACK, deploy_scene  # noqa: E402


def main(arguments: list[str]) -> int:
    """Exit status: 0 answered, 1 the function raised, 2 the call itself was wrong."""
    known = sorted(folder.name for folder in (ROOT / "functions").iterdir() if folder.is_dir())
    if len(arguments) != 2 or arguments[0] not in known or not Path(arguments[1]).is_file():
        print("usage: make invoke FUNCTION=name EVENT=events/name/case.json", file=sys.stderr)
        print(f"functions: {', '.join(known)}", file=sys.stderr)
        return 2
    name = arguments[0]
    try:
        event = json.loads(Path(arguments[1]).read_text(encoding="utf-8"))
    except ValueError as error:
        print(f"{arguments[1]} is no JSON: {error}", file=sys.stderr)
        return 2
    try:
        with Receivers() as receivers, LocalCloud(trust=receivers.certificate) as cloud:
            answer = _invoke(cloud, receivers, name, event)
    except (LocalCloudError, RuntimeUnavailableError) as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(answer, indent=2))
    return 1 if is_error(answer) else 0


def _invoke(cloud: LocalCloud, receivers: Receivers, name: str, event: object) -> object:
    scene = deploy_scene(cloud, receivers, mode="ask")
    scene.launch(demo_fleet())
    event, notes = happening(scene, event, datetime.now(tz=UTC))
    _say(f"for this sample: {note}" for note in notes)
    logical = "".join(part.capitalize() for part in name.split("_")) + "Function"
    resources = cloud.client("cloudformation").describe_stack_resources(StackName=STACK)["StackResources"]
    physical = next(r["PhysicalResourceId"] for r in resources if r["LogicalResourceId"] == logical)
    configured = cloud.client("lambda").get_function_configuration(FunctionName=physical)
    trusted = {"SSL_CERT_FILE": str(receivers.certificate)}
    environment = {**configured["Environment"]["Variables"], **cloud.environment(), **trusted}
    with LambdaRuntime(ROOT / "functions" / name, environment) as runtime:
        answer = runtime.invoke(event)
    _say(f"told {mail['owner']}: {mail['subject']}" for mail in scene.read_mail())
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
