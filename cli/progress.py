"""Show the progress of a command: on a terminal only, and only after two seconds."""

from __future__ import annotations

import sys
import threading
from typing import ClassVar, Self

_AFTER_SECONDS = 2.0


class Progress:
    """One line on standard error while it is entered, and gone when it is left.

    Where two are entered, only the outer one shows. Text that is printed meanwhile would stand in
    that line: print before or after.
    """

    _is_entered: ClassVar[bool] = False

    def __init__(self, text: str, *, after_seconds: float = _AFTER_SECONDS) -> None:
        self._text = text
        self._shown = 0
        self._is_on = False
        self._is_late = False
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
        if self._is_on:
            self._timer.cancel()
            Progress._is_entered = False
            with self._lock:
                self._is_on = False
                if self._shown:
                    print(f"\r{' ' * self._shown}\r", end="", file=sys.stderr, flush=True)

    def show(self, text: str) -> None:
        """Show another text from now on."""
        with self._lock:
            self._text = text
            self._print()

    def _begin(self) -> None:
        with self._lock:
            self._is_late = True
            self._print()

    def _print(self) -> None:
        if self._is_on and self._is_late:
            line = f"{self._text} …"
            print(f"\r{line:<{self._shown}}", end="", file=sys.stderr, flush=True)
            self._shown = max(self._shown, len(line))
