from collections.abc import Iterable
from enum import IntEnum, IntFlag
from typing import Any, Literal, NamedTuple, Protocol

__all__ = [
    "ADD", "CLEAR", "Change", "DELETE", "DISABLE", "DISPATCH", "ENABLE", "EOF", "ERROR", "Event", "Filter", "Flags", "ONESHOT",
    "Queue", "READ", "TIMER", "USER", "WRITE",
]

class _HasFileno(Protocol):
    def fileno(self) -> int: ...

class Filter(IntEnum):
    READ = -1
    WRITE = -2
    TIMER = -7
    USER = -11

class Flags(IntFlag):
    ADD = 0x1
    DELETE = 0x2
    ENABLE = 0x4
    DISABLE = 0x8
    ONESHOT = 0x10
    CLEAR = 0x20
    DISPATCH = 0x80
    ERROR = 0x4000
    EOF = 0x8000

READ: Literal[Filter.READ]
WRITE: Literal[Filter.WRITE]
TIMER: Literal[Filter.TIMER]
USER: Literal[Filter.USER]
ADD: Literal[Flags.ADD]
DELETE: Literal[Flags.DELETE]
ENABLE: Literal[Flags.ENABLE]
DISABLE: Literal[Flags.DISABLE]
ONESHOT: Literal[Flags.ONESHOT]
CLEAR: Literal[Flags.CLEAR]
DISPATCH: Literal[Flags.DISPATCH]
ERROR: Literal[Flags.ERROR]
EOF: Literal[Flags.EOF]

class Event(NamedTuple):
    ident: int
    filter: Filter
    flags: Flags
    data: int
    udata: Any

class Change(NamedTuple):
    source: int | _HasFileno
    filter: Filter
    flags: int = ...
    seconds: float = 0
    udata: Any = None

class Queue:
    def __init__(self) -> None: ...
    def fileno(self) -> int: ...
    def add(
        self,
        source: int | _HasFileno,
        filter: Filter,
        flags: int = 0,
        udata: object = None,
    ) -> int: ...
    def add_user(self, ident: int, flags: int = 0, udata: object = None) -> None: ...
    def add_timer(self, ident: int, seconds: float, flags: int = 0, udata: object = None) -> None: ...
    def change(self, ident: int, filter: Filter, flags: int) -> None: ...
    def kevent(self, changes: Iterable[Change] = (), most: int = 64, timeout: float | None = None) -> list[Event]: ...
    def trigger(self, ident: int, data: int = 0) -> None: ...
    def wait(self, most: int = 64, timeout: float | None = None) -> list[Event]: ...
