"""`make cloud`: an empty AWS account on this machine, in which docs/operate.md can be walked; goes
on until Ctrl-C.

It is the management account of the organization whose units docs/accounts.md governs.

Three instances without tags run in it, and publish idle GPUs. Another Region has one of everything
that `governor scan` knows. As soon as the reader has deployed the stack, it is swept every minute:
the engine fires no schedules.
"""

from __future__ import annotations

import signal
import sys
import time
from datetime import datetime

from cli.demo import environment_file, note, say, visitors_key
from cli.up import now
from governor.core.units import all_listed
from local.demo.fleet import A10G, Member, idle
from local.demo.organization import UNIT, put_organization
from local.demo.receivers import Receivers
from local.demo.scene import STACK, Scene
from local.demo.site.pulse import Pulse
from local.demo.waste import REGION as REGION_OF_WASTE
from local.demo.waste import put_waste
from local.engine.cloud import ACCOUNT, ROOT, LocalCloud, LocalCloudError

ENVIRONMENT = ROOT / "build" / "cloud.env"
INSTANCES = {
    "forgotten": "i-0123456789abcdef0",
    "left-alone": "i-0fedcba9876543210",
    "not-needed": "i-0f1e2d3c4b5a69788",
}
"""The instances that the page tags, by name: in observe, to be kept, and to be stopped."""
READER = f"arn:aws:iam::{ACCOUNT}:user/ada"
"""The person who follows the page; its policy names them."""
SPOT_PRICES = {"g5.12xlarge": "2.2710"}
"""USD an hour, made up, of the type whose Spot price docs/health.md looks up."""
_BEAT_SECONDS = 2.0


class Account:
    """The account, with the stack that somebody has deployed into it so far."""

    def __init__(self, cloud: LocalCloud, launched: datetime) -> None:
        self.scene = Scene(cloud, {}, "", Receivers())
        why = "nobody has used it since it was launched"
        fleet = []
        for name, instance_id in INSTANCES.items():
            member = Member(
                name,
                "g5.xlarge",
                A10G,
                1,
                idle,
                "idle",
                why,
                selected=False,
                instance_id=instance_id,
            )
            fleet.append(member)
        self.scene.launch(fleet, launched)
        self.scene.simulation.set_spot_prices(SPOT_PRICES)
        self._pulse = Pulse(self.scene, launched)
        self._key = visitors_key(cloud, READER)

    def exports(self) -> str:
        """Return the shell commands by which another terminal reaches the account as the reader."""
        return self.scene.exports(self._key)

    def beat(self, at: datetime) -> bool:
        """Publish what is due, and sweep a stack that is deployed.

        Return whether the stack is new: it was not there at the last beat.
        """
        outputs_before = self.scene.outputs
        self.scene.outputs = self.deployed()
        if self.scene.outputs:
            self._pulse.beat(at)
        else:
            self._pulse.publish(at)
        return bool(self.scene.outputs) and not outputs_before

    def deployed(self) -> dict[str, str]:
        """Return the outputs of the stack.

        There are none before it is created, and once it is being deleted.
        """
        for stack in self.scene.cloud.client("cloudformation").describe_stacks()["Stacks"]:
            status = stack["StackStatus"]
            is_deployed = status == "CREATE_COMPLETE" or status.startswith("UPDATE_")
            if stack["StackName"] == STACK and is_deployed:
                return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
        return {}


def go_on(account: Account, path: str) -> None:
    """Beat until Ctrl-C. The file at `path` gets the API's address once there is one."""
    while True:
        try:
            if account.beat(now()):
                ENVIRONMENT.write_text(account.exports() + "\n", encoding="utf-8")
                say(f"the stack is deployed, and swept every minute: once more, `. {path}`")
        except (LocalCloudError, RuntimeError) as error:
            if account.deployed():  # a sweep ends when its stack is deleted
                print(f"  a sweep failed: {error}", file=sys.stderr, flush=True)
        time.sleep(_BEAT_SECONDS)


def main() -> int:
    """Run it. Return 0 when it was ended by Ctrl-C."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with LocalCloud() as cloud:
            account = Account(cloud, now())
            put_waste(cloud, now())
            put_organization(cloud)
            with environment_file(account.exports(), ENVIRONMENT) as path:
                say(
                    "an empty account, with the instances "
                    f"{all_listed(list(INSTANCES.values()))}; Ctrl-C ends it"
                )
                note(f"in another terminal in this folder: `. {path}`; then docs/operate.md")
                note(f"the unit {UNIT} of an organization has accounts: docs/accounts.md")
                note(f"waste of every kind is in {REGION_OF_WASTE}: `bin/governor scan`")
                go_on(account, path)
    except LocalCloudError as error:
        print(f"it failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nended")
    return 0


if __name__ == "__main__":
    sys.exit(main())
