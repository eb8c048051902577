"""Client of `reverie serve`: the methods of `Memory` over HTTP, with the standard library alone.

    from reverie.integrations.remote import RemoteMemory

    with RemoteMemory("http://127.0.0.1:8766", token="rvr_...") as memory:
        memory.save("Prefers short answers")

Errors are those of `Memory`. A server that cannot be reached raises `StoreUnavailable`.
"""

from reverie.integrations.remote.connection import Connection, Reply
from reverie.integrations.remote.memory import ChangeEvent, RemoteMemory, RemoteReader
from reverie.integrations.remote.parts import (
    RemoteHistory,
    RemotePack,
    RemotePages,
    RemoteSession,
    RemoteWorkingMemory,
)

__all__ = [
    "ChangeEvent",
    "Connection",
    "RemoteHistory",
    "RemoteMemory",
    "RemotePack",
    "RemotePages",
    "RemoteReader",
    "RemoteSession",
    "RemoteWorkingMemory",
    "Reply",
]
