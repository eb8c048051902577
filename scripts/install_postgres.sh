#!/bin/sh
# Install PostgreSQL 15, the oldest version that is supported, and pgbouncer for the tests. Needs Debian or Ubuntu, and root.
set -eu
if [ -x /usr/lib/postgresql/15/bin/initdb ] && [ -x /usr/sbin/pgbouncer ]; then
    echo "PostgreSQL 15 and pgbouncer are installed already"
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "PostgreSQL 15 or pgbouncer is missing, and only root can install them; their tests are skipped" >&2
    exit 0
fi
apt-get update --quiet
if ! apt-cache show postgresql-15 >/dev/null 2>&1; then
    # Debian 12 has it; elsewhere it comes from the archive of the PostgreSQL project.
    apt-get install --yes --no-install-recommends postgresql-common ca-certificates
    /usr/share/postgresql-common/pgdg/apt.postgresql.org.sh -y
fi
apt-get install --yes --no-install-recommends postgresql-15 pgbouncer
