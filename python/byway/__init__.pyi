import io

from typing_extensions import Buffer

from ._native import (
    INLINE as INLINE,
    Grant as Grant,
    Receiver as Receiver,
    Sender as Sender,
    WriteGrant as WriteGrant,
    reserve as reserve,
    why_not_carried as why_not_carried,
)
from ._native import pipe as records
from .pair import Duplex as Duplex

__all__ = [
    "INLINE", "Duplex", "Fifo", "Grant", "Reader", "Receiver", "Sender", "WriteGrant", "Writer",
    "duplex", "pipe", "records", "reserve", "why_not_carried",
]
__version__: str

def pipe() -> tuple[Reader, Writer]: ...
def duplex() -> tuple[Duplex, Duplex]: ...

class _Stream(io.RawIOBase):
    def __init__(self, end: Receiver | Sender) -> None: ...
    @property
    def is_carried(self) -> bool: ...
    def detach(self) -> int: ...

class Reader(_Stream):
    def readinto(self, buffer: Buffer, timeout: float | None = None) -> int: ...

class Writer(_Stream):
    def write(self, data: Buffer, timeout: float | None = None) -> int: ...

class Fifo:
    name: str
    def __init__(self, name: str) -> None: ...
    def receiver(self, wait: bool = True, timeout: float | None = None) -> Receiver: ...
    def sender(self, timeout: float | None = None) -> Sender: ...
    def reader(self, wait: bool = True, timeout: float | None = None) -> Reader: ...
    def writer(self, timeout: float | None = None) -> Writer: ...
    def remove(self) -> None: ...
