#!/usr/bin/env bash
# python-dateutil 2.9.0.post0 (PyPI): dateutil.tz on the zone files of tzdata 2026.6 (PyPI), which are "slim" (zic -b slim, zic's default
# since 2020b).
#
# Expected: the offsets that zoneinfo reads from the same file, or an error. In a file of version 2 or later (RFC 9636) the data are in its
# second block, and the first one, for readers of version 1, may be empty, as it is in slim files. The header says which version it is.
# Seen: UTC. tzfile() and gettz() take the file, and Berlin, New York and Kolkata are +00:00 in each year. No error, no warning.
#
# So with a system whose files are slim (zic's default; Debian builds fat ones) or with dateutil.tz.tzfile() on PyPI's files,
# local times are UTC. Give TZPATHS of dateutil a folder of fat files, or use zoneinfo.
# Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check python-dateutil==2.9.0.post0 tzdata==2026.6
"$folder/venv/bin/python" -W error::UserWarning - <<'PY'
import importlib.metadata, importlib.resources, sys
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, reset_tzpath
from dateutil import tz

zones = importlib.resources.files("tzdata") / "zoneinfo"
reset_tzpath(to=[str(zones)])
tz.tz.TZPATHS[:] = [str(zones)]
version = importlib.metadata.version("python-dateutil")
seen = []
for name, hours in (("Europe/Berlin", 2), ("America/New_York", -4), ("Asia/Kolkata", 5.5)):
    july = [datetime(year, 7, 1, 12) for year in (2000, 2026, 2040)]
    readers = ZoneInfo(name), tz.tzfile(str(zones / name)), tz.gettz(name)
    offsets = [{time.replace(tzinfo=reader).utcoffset() for time in july} for reader in readers]
    print(name, *({str(offset) for offset in found} for found in offsets))
    seen.append(offsets == [{timedelta(hours=hours)}, {timedelta(0)}, {timedelta(0)}])
print(f"version {version}")
sys.exit((version, seen) != ("2.9.0.post0", [True] * 3))
PY
