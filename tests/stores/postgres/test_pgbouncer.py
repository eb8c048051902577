"""The store behind pgbouncer in transaction mode, where each transaction may be on another connection."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest

from reverie.domain.filter import Filter
from reverie.stores.postgres import PostgresStore
from reverie.stores.protocol import Store
from tests.profiles import THOROUGH
from tests.stores.postgres.conftest import NEWEST, start_or_skip
from tests.stores.postgres.server import OWNER
from tests.support.contract.factories import NOW, analyse, make_additions, make_record
from tests.support.contract.suite import StoreContract

pytestmark = pytest.mark.slow

_PROGRAM = "/usr/sbin/pgbouncer"


@pytest.fixture(scope="module")
def bouncer(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The folder of the socket of a pgbouncer with three connections to a server."""
    server = start_or_skip(request, NEWEST)
    if not Path(_PROGRAM).exists():
        reason = "pgbouncer is not installed here: run `sh scripts/install_postgres.sh`, as root"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="rvpb", dir=server.folder.parent))
    (folder / "users").write_text(f'"{OWNER}" ""\n')
    (folder / "settings").write_text(
        f"[databases]\nagents = host={server.folder} port=5432\n"
        f"[pgbouncer]\nlisten_addr =\nlisten_port = 5432\nunix_socket_dir = {folder}\nauth_type = trust\n"
        f"auth_file = {folder}/users\npool_mode = transaction\ndefault_pool_size = 3\nlogfile = {folder}/log\n"
    )
    if server.user is not None:
        os.chown(folder, *server.user)
    process = subprocess.Popen(
        [_PROGRAM, "-q", str(folder / "settings")], stderr=subprocess.DEVNULL, **server.as_user()
    )
    until = time.monotonic() + 30
    while not (folder / ".s.PGSQL.5432").exists():
        assert process.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < until
        time.sleep(0.05)
    yield folder
    process.terminate()
    process.wait(30)
    shutil.rmtree(folder)


def test_many_threads_share_few_connections(bouncer: Path, request: pytest.FixtureRequest) -> None:
    postgres = start_or_skip(request, NEWEST)
    url = postgres.url(uuid.uuid4().hex).replace(str(postgres.folder), str(bouncer))

    def work(worker: int) -> None:
        with closing(PostgresStore(url, analyse=analyse)) as store:
            for number in range(30):
                one = make_record(worker * 1000 + number)
                store.commit(make_additions(one), actor=f"worker {worker}", at=NOW)
                with store.reading():
                    assert one in store.find(Filter())
                    assert len(store.journal(limit=1000)) == store.sequence()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    with closing(PostgresStore(url, analyse=analyse)) as store:
        assert store.sequence() == 240
        assert store.check() == []
        prepared = store._connections.rows("SELECT statement FROM pg_prepared_statements")
        assert prepared == [], "the next transaction may be on another connection of the server"


if THOROUGH:

    class TestBehindPgbouncer(StoreContract):
        url: ClassVar[str]

        @pytest.fixture(autouse=True)
        def _use_server(self, bouncer: Path, request: pytest.FixtureRequest) -> None:
            server = start_or_skip(request, NEWEST)
            type(self).url = server.url("{}").replace(str(server.folder), str(bouncer))

        def open_store(self, place: Path) -> Store:
            return PostgresStore(
                self.url.format(uuid.uuid5(uuid.NAMESPACE_URL, str(place)).hex), analyse=analyse
            )
