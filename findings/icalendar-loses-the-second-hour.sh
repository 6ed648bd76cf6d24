#!/usr/bin/env bash
# icalendar 7.3.2 (PyPI): an event at the second 02:30 of the night in which clocks go back, written and read.
#
# Expected: the same instant, or an error. DTSTART with a TZID cannot name the second one (RFC 5545 3.3.5: a local time that occurs twice is the
# first one), but a time in UTC can, and datetime has the attribute `fold` for it (PEP 495).
# Seen: it writes DTSTART;TZID=Europe/Berlin:20261025T023000 for both, and reads the first one, an hour too early. No error, no warning.
# In UTC the same event comes back as it was.
#
# So an invitation that is computed in UTC and shown in a zone moves by an hour once a year. Convert to UTC before add() where fold is 1.
# Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check icalendar==7.3.2 tzdata==2026.6
"$folder/venv/bin/python" -W error - <<'PY'
import importlib.metadata, sys
from datetime import datetime, timezone
from zoneinfo import ZoneInfo
from icalendar import Event


def read_back(time):
    """The line of the start, and how much later the start is when it is read."""
    event = Event()
    event.add("dtstart", time)
    text = event.to_ical().decode()
    start = Event.from_ical(text)["dtstart"].dt
    line = next(line for line in text.split("\r\n") if line.startswith("DTSTART"))
    return line, (start.astimezone(timezone.utc) - time.astimezone(timezone.utc)).total_seconds()


first = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
second = first.replace(fold=1)
assert second.astimezone(timezone.utc).hour == 1 and first.astimezone(timezone.utc).hour == 0
version = importlib.metadata.version("icalendar")
seen = [read_back(time) for time in (first, second, second.astimezone(timezone.utc))]
print(f"version {version}", *(f"{line}: {seconds:+.0f} s" for line, seconds in seen), sep="\n")
line = "DTSTART;TZID=Europe/Berlin:20261025T023000"
sys.exit((version, *seen) != ("7.3.2", (line, 0), (line, -3600), ("DTSTART:20261025T013000Z", 0)))
PY
