"""Show the progress of a command on standard error.

Rich draws it. It is imported when something is drawn: a command that answers at once needs none.
Standard output is never touched, so that what is printed meanwhile still goes where it should.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from rich.live import Live
    from rich.progress import Progress as RichProgress
    from rich.spinner import Spinner

_AFTER_SECONDS = 2.0


class Progress:
    """One line on a terminal, from two seconds after it is entered until it is left.

    Where two are entered, only the outer one shows.
    """

    _is_entered: ClassVar[bool] = False

    def __init__(self, text: str, *, after_seconds: float = _AFTER_SECONDS) -> None:
        self._text = text
        self._is_on = False
        self._live: Live | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(after_seconds, self._begin)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and not Progress._is_entered:
            Progress._is_entered = True
            self._is_on = True
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_on:
            return
        self._timer.cancel()
        Progress._is_entered = False
        with self._lock:
            self._is_on = False
            if self._live is not None:
                self._live.stop()

    def show(self, text: str) -> None:
        """Show another text from now on."""
        with self._lock:
            self._text = text
            if self._live is not None:
                self._live.update(_spinner(text))

    def _begin(self) -> None:
        from rich.console import Console
        from rich.live import Live

        with self._lock:
            if not self._is_on:
                return
            self._live = Live(
                _spinner(self._text),
                console=Console(stderr=True),
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()


def _spinner(text: str) -> Spinner:
    from rich.spinner import Spinner
    from rich.text import Text

    return Spinner("dots", text=Text(f"{text} …"))


class Counter:
    """The progress of reads that are counted: a bar on a terminal, else one line at their end.

    A read that is interrupted leaves its bar where it was.
    """

    def __init__(self, unit: str = "calls") -> None:
        self._unit = unit
        self._bar: RichProgress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def show(self, label: str, done: int, total: int) -> None:
        """Show how many are done; show nothing if there is nothing to do."""
        if not total:
            return
        if sys.stderr.isatty():
            self._draw(label, done, total)
        elif done == total:
            print(f"{label}: {total} {self._unit}", file=sys.stderr)

    def _draw(self, label: str, done: int, total: int) -> None:
        if self._bar is None:
            self._bar = _new_bar(self._unit)
            self._bar.add_task(label)
            self._bar.start()
        (task,) = self._bar.task_ids
        self._bar.update(task, description=label, completed=done, total=total)
        if done == total:
            self._end()

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _new_bar(unit: str) -> RichProgress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as RichProgress

    return RichProgress(
        TextColumn("{task.description}:", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit, markup=False),
        console=Console(stderr=True),
        redirect_stdout=False,
        redirect_stderr=False,
    )
