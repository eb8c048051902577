#!/bin/sh
# Make the roles of Reverie in a new database. The image of PostgreSQL runs this once, on an empty volume; see compose.yaml.
#
# `reverie` can use the tables that `reverie_owner` makes, and nothing else, and row-level security binds it. The owner and
# the superuser have no password, so they cannot connect from another container, only by the socket.
set -eu
psql --quiet --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" \
    --set=password="$(cat "$POSTGRES_PASSWORD_FILE")" <<'SQL'
CREATE ROLE reverie_owner LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
CREATE ROLE reverie LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'password';
REVOKE ALL ON DATABASE :"DBNAME" FROM PUBLIC;
GRANT CONNECT ON DATABASE :"DBNAME" TO reverie;
GRANT CONNECT, CREATE ON DATABASE :"DBNAME" TO reverie_owner;
ALTER DEFAULT PRIVILEGES FOR ROLE reverie_owner GRANT USAGE ON SCHEMAS TO reverie;
ALTER DEFAULT PRIVILEGES FOR ROLE reverie_owner GRANT SELECT, INSERT, UPDATE, DELETE, MAINTAIN ON TABLES TO reverie;
ALTER ROLE CURRENT_USER PASSWORD NULL;
SQL
