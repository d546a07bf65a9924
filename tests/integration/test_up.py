"""The door of `make up` on the deployed stack, with IAM enforced: whoever opens the URL is in."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

from cli.cloud import ENVIRONMENT, INSTANCES, READER, Account
from cli.demo import VISITORS_POLICY
from cli.up import now, show
from local.demo.site.front import Front, Reply
from local.demo.site.pulse import MINUTE
from local.engine.cloud import ROOT
from tests.integration.stage import Stage


def opened(front: Front, path: str) -> Reply:
    """A page, as a browser without a session gets it."""
    entered = front.answer("GET", path, {"Accept": "text/html"})
    assert (303, path) == (entered.status, dict(entered.headers)["Location"]), entered.body
    cookie = dict(entered.headers)["Set-Cookie"].partition(";")[0]
    return front.answer("GET", path, {"Accept": "text/html", "Cookie": cookie})


def test_whoever_opens_the_url_is_in_and_may_answer(stage: Stage) -> None:
    """As an IAM user who may do nothing but ask for a code, with the permissions that the policy
    gives them."""
    stage.policy(VISITORS_POLICY + "mode: ask\n", as_it_is=True)
    with Front() as front:
        show(stage.scene, stage.state._table, front)
        instance_id, _ = stage.ask()
        stage.scene.sweep()  # which sees the question that the one before has asked

        place = f"/instances/123456789012/us-east-1/{instance_id}"
        for path in ("/", "/fleet?state=idle", "/questions", "/savings", place):
            page = opened(front, path)
            assert 200 == page.status, path
            for said in ("<strong>Simulated</strong>", "Visitor (AWS identity)"):
                assert said in page.body.decode(), (path, said)
        assert 'name="answer" value="approve"' in opened(front, "/questions").body.decode()

        for channel in ("mail", "slack", "teams"):
            listed = front.answer("GET", f"/simulated/{channel}", {}).body.decode()
            [newest] = re.findall(r'src="/simulated/[a-z]+/(\d+)/body"', listed)
            # The last sweep may have sent something about an instance of another test.
            paths = (f"/simulated/{channel}/{number}/body" for number in range(int(newest), 0, -1))
            assert any(
                instance_id in front.answer("GET", one, {}).body.decode() for one in paths
            ), channel


def test_an_account_is_swept_as_soon_as_the_stack_is_deployed(stage: Stage) -> None:
    """Before that its instances publish alone, and no address of an API is exported."""
    account = Account(stage.scene.cloud, now() - 2 * MINUTE)
    assert "GOVERNOR_API_URL=" not in account.exports()

    assert [True, False] == [account.beat(now()), account.beat(now())]
    assert account.scene.outputs == stage.scene.outputs
    assert stage.scene.cloud.reachable_url(stage.scene.outputs["ApiUrl"]) in account.exports()
    states = stage.scene.simulation.dump()["instances"]
    assert {"running"} == {states[one] for one in INSTANCES.values()}


def test_make_cloud_gives_the_reader_an_account_until_it_is_ended() -> None:
    """Another terminal is the user whom docs/operate.md names, whatever it has set for a real
    account."""
    line = [sys.executable, "-m", "cli.cloud"]
    # Whatever runs the tests in the background has the signal of Ctrl-C ignored, and so would what
    # it starts.
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        begun = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, heard)
    try:
        assert begun.stdout is not None
        said = next(
            one
            for one in begun.stdout
            if "in another terminal in this folder: `. build/cloud.env`" in one
        )
        assert "then docs/operate.md" in said
        who = "import boto3; print(boto3.client('sts').get_caller_identity()['Arn'])"
        done = subprocess.run(
            ["bash", "-c", f'. {ENVIRONMENT}; {sys.executable} -c "{who}"'],
            env={"PATH": os.environ["PATH"], "AWS_PROFILE": "mine", "AWS_REGION": "eu-west-1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert READER == done.stdout.strip(), done.stderr
    finally:
        begun.send_signal(signal.SIGINT)
        rest, _ = begun.communicate()
    assert (0, True) == (begun.returncode, rest.endswith("ended\n"))
    assert not ENVIRONMENT.exists()
