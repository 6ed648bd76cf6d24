#!/usr/bin/env bash
# SQLite 3.50.4, the copy in apsw 3.50.4.0: a commit to a database whose file was renamed.
#
# Expected: SQLITE_READONLY_DBMOVED (1032), as sqlite.org/rescode.html says, in every journal mode.
# Seen: refused with journal_mode=delete. In WAL mode the commit succeeds; its row is in the log under the old name, and the file under
# its new name, which a person takes for the whole database, does not have it.
#
# So a store in WAL mode that somebody moves while a worker runs loses what is committed from then on, and no call fails.
# Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check apsw==3.50.4.0
"$folder/venv/bin/python" - "$folder" <<'PY'
import os, shutil, sys
import apsw

folder = sys.argv[1]


def commit_after_rename(mode):
    """The extended code of the refusal, or 0, and the rows that a copy of the renamed file has."""
    old, new, copy = (f"{folder}/{mode}-{name}.db" for name in ("old", "new", "copy"))
    connection = apsw.Connection(old)
    connection.execute(f"PRAGMA journal_mode={mode}")
    connection.execute("CREATE TABLE t (x); INSERT INTO t VALUES (1)")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    os.rename(old, new)
    code = 0
    try:
        connection.execute("INSERT INTO t VALUES (2)")
    except apsw.Error as error:
        code = error.extendedresult
    shutil.copy(new, copy)
    rows = [x for (x,) in apsw.Connection(f"file:{copy}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI).execute("SELECT x FROM t")]
    return code, rows


seen = apsw.sqlite_lib_version(), commit_after_rename("delete"), commit_after_rename("wal")
print("version {}\njournal_mode=delete: code {}, rows {}\njournal_mode=wal: code {}, rows {}".format(seen[0], *seen[1], *seen[2]))
sys.exit(seen != ("3.50.4", (1032, [1]), (0, [1])))
PY
