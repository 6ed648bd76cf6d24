#!/usr/bin/env bash
# rrule 2.8.1 (npm), in a process with TZ=UTC: a daily rule at 02:30 in Europe/Berlin on the two nights of a clock change.
#
# Expected, from RFC 5545 3.3.5: a local time that occurs twice is the first one, so 2026-10-25 00:30Z; one that does not occur is read by
# the offset before the gap, so 2026-03-29 01:30Z, which is 03:30 on the clock. python-dateutil 4.0.0 has both (rrule is a port of its rules).
# Seen: the second one, 01:30Z, and in spring 00:30Z, which is 01:30 on the clock: an hour early. No error, and the rest of the year is right.
#
# So an interface that shows by rrule when the next digest comes is wrong on both nights: in spring it names a time before the gap, which is
# no service's answer (some take its end, 01:00Z), and in autumn a time an hour after the message.
# Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund rrule@2.8.1
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check python-dateutil==4.0.0
cat > try.mjs <<'JS'
import rrule from 'rrule'

const rule = (start) => `DTSTART;TZID=Europe/Berlin:${start}T023000\nRRULE:FREQ=DAILY;COUNT=3`
for (const start of ['20260328', '20261024']) console.log(rrule.rrulestr(rule(start)).all().map((time) => time.toISOString().slice(0, 16) + 'Z').join(' '))
JS
cat > try.py <<'PY'
from datetime import timezone
from dateutil.rrule import rrulestr

for start in ("20260328", "20261024"):
    rule = rrulestr(f"DTSTART;TZID=Europe/Berlin:{start}T023000\nRRULE:FREQ=DAILY;COUNT=3")
    print(*(time.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%MZ") for time in rule))
PY
rrule=$(TZ=UTC node try.mjs)
dateutil=$(venv/bin/python try.py)
printf 'rrule\n%s\npython-dateutil\n%s\n' "$rrule" "$dateutil"
[ "$rrule" = '2026-03-28T01:30Z 2026-03-29T00:30Z 2026-03-30T00:30Z
2026-10-24T00:30Z 2026-10-25T01:30Z 2026-10-26T01:30Z' ]
[ "$dateutil" = '2026-03-28T01:30Z 2026-03-29T01:30Z 2026-03-30T00:30Z
2026-10-24T00:30Z 2026-10-25T00:30Z 2026-10-26T01:30Z' ]
