"""Wiring of the console: its pages (views), its forms, and the policy that each request sees."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from governor.approvals.decide import Decide
from governor.approvals.open_console import OpenConsole
from governor.approvals.pause import PauseAll
from governor.console import questions
from governor.console.app import Console, Post, View
from governor.console.page import Reader
from governor.console.session import ConsoleSessions
from governor.console.views.fleet import fleet
from governor.console.views.freezes import PATH, FreezeForms, freezes
from governor.console.views.instance import end_hold, instance
from governor.console.views.kept import kept
from governor.console.views.overview import overview
from governor.console.views.project import project, projects
from governor.console.views.savings import savings
from governor.console.views.ungoverned import ungoverned
from governor.episode.ports import Undoer
from governor.limits.store.breaker import Breakers
from governor.policy.accounts import swept_targets
from governor.policy.document import parse_policy
from governor.table.table import Readable
from governor.web.sessions import Sessions
from governor.wiring.deciding import decide
from governor.wiring.parts import Parts
from governor.wiring.pausing import pause_all
from governor.wiring.policies import or_defaults

VIEWS: Mapping[str, View] = {
    "/": overview,
    "/fleet": fleet,
    "/instances/<account>/<region>/<instance_id>": instance,
    PATH: freezes,
    "/kept": kept,
    "/ungoverned": ungoverned,
    "/savings": savings,
    "/projects": projects,
    "/projects/<name>": project,
    "/questions": questions.questions,
    "/questions/<approval_id>": questions.question,
}


def console(parts: Parts) -> Console:
    """Return the console of `serve_console`. Each request sees one policy: that in force, or
    defaults for all but its people if that is refused. Raises: ConfigurationError if a setting is
    missing."""
    policies = or_defaults(parts)
    settings = parts.settings

    def reader() -> Reader:
        """Return what a request reads from, under the policy in force now. Raises: CloudError."""
        book = policies()
        return Reader(
            table=Readable(parts.table),
            clock=parts.clock,
            policies=book,
            targets=swept_targets(book.base().policy, parts.hub),
            environment=settings.named(settings.need("powertools_metrics_namespace")),
            policy_is_whole=book.whole,
        )

    open_console = OpenConsole(parts.sign_in_store, parts.clock, settings.oidc_issuer)
    # Builds the parser at cold start.
    parse_policy("")
    sessions = ConsoleSessions(Sessions(parts.signer, settings.session_scope), open_console)
    posts = forms(
        decide(parts, policies_now=policies), parts.undoer, parts.breaker_store, pause_all(parts)
    )
    return Console(reader, sessions, VIEWS, posts)


def forms(
    answer: Decide, undoer: Undoer, breaker_store: Breakers, pause: PauseAll
) -> Mapping[str, Post]:
    """Return the handler of each form, by its path."""
    answers = questions.Answers(answer, undoer)
    return {
        "/questions": answers.several,
        "/questions/<approval_id>": answers.one,
        "/instances/<account>/<region>/<instance_id>": partial(end_hold, answer),
        PATH: FreezeForms(breaker_store, pause).take,
    }
