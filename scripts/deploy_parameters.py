"""Parameters of the template as `make deploy` takes them: given or asked, checked, given to SAM
CLI."""

from __future__ import annotations

import difflib
import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from governor.core.errors import PolicyError
from governor.policy.document import parse_policy
from governor.policy.model.names import KEY_FOR_IAM
from local.engine.templates import load_template
from scripts.make_arguments import ADDRESS

SHORT = {
    "MODE": "Mode",
    "SELECTOR": "SelectorTagValue",
    "ALERT_EMAIL": "AlertEmail",
    "POLICY": "PolicyYaml",
}
"""Variables of make that set one parameter each; `PARAMETERS` sets any."""
LONGEST = 4096
"""Bytes of a parameter's value in CloudFormation."""


class DeployError(Exception):
    """Why nothing is deployed, and what to set."""


@dataclass
class Parameters:
    """Values of the template's parameters. `ask` is `None` where nobody sits at a terminal."""

    given: Mapping[str, str]
    ask: Callable[[str, str], str] | None
    template: Path

    @cached_property
    def _defaults(self) -> dict[str, dict[str, Any]]:
        parameters: dict[str, dict[str, Any]] = load_template(self.template)["Parameters"]
        return parameters

    def default(self, name: str) -> str:
        """The template's."""
        return str(self._defaults[name]["Default"])

    def all(self, *, guided: bool) -> dict[str, str]:
        """Return what is set or, if `guided`, asked; each value as the template allows it.

        Raises:
            DeployError: a value is not allowed, would be cut, or is set twice.
        """
        found = self._listed()
        for variable, name in SHORT.items():
            if variable not in self.given:
                continue
            if name in found:
                raise DeployError(f"{name} is set twice: by {variable}= and in PARAMETERS")
            found[name] = self.given[variable]
            if variable == "POLICY":
                found[name] = _read(self.given[variable])
        if guided and self.ask:
            questions = {
                "Mode": "Mode: observe changes nothing, ask acts after approvals, auto "
                "acts on its own",
                "SelectorTagValue": "Governed are instances with the tag Purpose=",
                "AlertEmail": "Address for alerts",
            }
            for name, question in questions.items():
                if name not in found:
                    found[name] = self._ask_until_right(name, question)
        for name, value in found.items():
            self._check_value(name, value)
        if "PolicyYaml" in found:
            self._check_policy(found, is_first=guided)
        return found

    def _listed(self) -> dict[str, str]:
        try:
            pairs = shlex.split(self.given.get("PARAMETERS", ""))
        except ValueError as error:
            raise DeployError(
                f"PARAMETERS cannot be read ({error}): quote values with spaces"
            ) from None
        found: dict[str, str] = {}
        for pair in pairs:
            name, is_pair, value = pair.partition("=")
            if not is_pair:
                raise DeployError(
                    f"{pair!r} in PARAMETERS is not Name=Value: quote values with spaces, as in "
                    'PARAMETERS="OidcIssuer=https://id.example.com '
                    "OidcApproverGroup='gpu admins'\""
                )
            if name not in self._defaults:
                near = difflib.get_close_matches(name, self._defaults, n=1)
                hint = (
                    f": did you mean {near[0]}?" if near else "; they are listed in template.yaml"
                )
                raise DeployError(f"the template has no parameter {name!r}{hint}")
            if name in found:
                raise DeployError(f"{name} is set twice in PARAMETERS")
            found[name] = value
        return found

    def _ask_until_right(self, name: str, question: str) -> str:
        assert self.ask is not None
        while True:
            value = self.ask(question, self.default(name))
            try:
                self._check_value(name, value)
            except DeployError as error:
                print(error)
            else:
                return value

    def _check_value(self, name: str, value: str) -> None:
        rules = self._defaults[name]
        set_by = next((variable for variable, one in SHORT.items() if one == name), name)
        length = len(value.encode())
        if length > LONGEST:
            how = (
                ": deploy without it, then store it with bin/governor policy put FILE, "
                "which takes 65,536"
            )
            raise DeployError(
                f"{set_by} has {length:,} bytes, and CloudFormation takes {LONGEST:,} at most"
                f"{how if name == 'PolicyYaml' else ''}"
            )
        if broken := _broken_rule(rules, value):
            raise DeployError(f"{set_by}={value} is not allowed: {broken}")
        if name == "AlertEmail" and value and not ADDRESS.fullmatch(value):
            raise DeployError(f"{set_by}={value} is no address")

    def _check_policy(self, parameters: Mapping[str, str], *, is_first: bool) -> None:
        """Refuse a first policy that the functions would refuse, or whose exemptions IAM would not
        see."""
        text = parameters["PolicyYaml"]
        if re.search(r"^(mode|selector)\s*:", text, re.MULTILINE):
            raise DeployError(
                "the first policy has no mode and no selector: set MODE= and SELECTOR= instead"
            )
        mode = parameters.get("Mode") or self.default("Mode")
        selector = parameters.get("SelectorTagValue") or self.default("SelectorTagValue")
        head = f'mode: {mode}\nselector: {{tag_key: Purpose, tag_value: "{selector}"}}\n'
        try:
            exemption = parse_policy(head + text).base().policy.exemption
        except PolicyError as error:
            above = head.count("\n")  # lines that the file does not have
            own = [
                one._replace(line=one.line and max(one.line - above, 1)) for one in error.problems
            ]
            raise DeployError(str(PolicyError(own))) from None
        denied = parameters.get("ExemptionTagKey")
        if denied is None and not is_first:
            return  # The stack keeps its own, and `governor doctor` compares it.
        denied = denied or self.default("ExemptionTagKey")
        if not exemption.is_key_for_iam(exemption.tag_key):
            raise DeployError(
                f"the first policy exempts by the key {exemption.tag_key}, which "
                "ExemptionTagKey cannot be: "
                f"IAM would not see it. Choose a key of {KEY_FOR_IAM}"
            )
        if exemption.tag_key != denied:
            raise DeployError(
                f"the first policy exempts by the key {exemption.tag_key}, and IAM would "
                f"deny by {denied}: "
                f"add ExemptionTagKey={exemption.tag_key} to PARAMETERS"
            )


def _broken_rule(rules: Mapping[str, Any], value: str) -> str | None:
    """Return what the template asks of a parameter, where this value breaks it."""
    allowed = [str(one) for one in rules.get("AllowedValues", ())]
    if allowed:
        return None if value in allowed else f"set one of {', '.join(map(repr, allowed))}"
    if "AllowedPattern" in rules and not re.fullmatch(rules["AllowedPattern"], value):
        said = rules.get("ConstraintDescription")
        return f"it {said or 'must match'} ({rules['AllowedPattern']})"
    if len(value) > (longest := rules.get("MaxLength", LONGEST)):
        return f"it has {len(value)} characters, and {longest} is the most"
    if rules["Type"] != "Number":
        return None
    least, most = rules.get("MinValue", 0), rules.get("MaxValue")
    if re.fullmatch("[0-9]+", value) and least <= int(value) <= (most or int(value)):
        return None
    return f"it must be a number from {least}{f' to {most}' if most else ' on'}"


def for_sam(parameters: Mapping[str, str]) -> str:
    """Return parameters as a file for `sam deploy --parameter-overrides file://`, each value to
    arrive whole.

    SAM CLI strips quotes around a value, and backslashes before quotes and spaces, once for the
    file and once for the option that names it: both are put there for it, twice.
    """
    return json.dumps(
        {name: _quoted(_quoted(one)) for name, one in parameters.items()}, ensure_ascii=False
    )


def _quoted(value: str) -> str:
    return '"' + re.sub(r"""([ "'])""", r"\\\1", value) + '"'


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DeployError(f"POLICY={path} could not be read: {error}") from None
