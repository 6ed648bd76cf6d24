#!/usr/bin/env bash
# date-fns-tz 3.2.0 and @date-fns/tz 1.5.0 (npm): 02:30 in Europe/Berlin in the night in which clocks go back, for processes with several TZ.
#
# Expected: one instant from each library, the first or the second 02:30, wherever the process runs. The zone is an argument.
# Seen: fromZonedTime() of date-fns-tz gives the first one with TZ=America/New_York and the second one with UTC, Europe/Berlin and Asia/Tokyo.
# TZDate of @date-fns/tz gives the first one with Europe/Berlin and Asia/Tokyo and the second one with UTC and America/New_York. Luxon 3.7.2
# and Intl do not depend on TZ.
#
# So a server in UTC, a laptop in Berlin and a browser in New York show different times for one reminder, and a test on the laptop proves
# nothing about the server.
# Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund date-fns@4.1.0 date-fns-tz@3.2.0 @date-fns/tz@1.5.0 luxon@3.7.2 node@24.11.0
cat > try.mjs <<'JS'
import { TZDate } from '@date-fns/tz'
import { fromZonedTime } from 'date-fns-tz'
import { DateTime } from 'luxon'

const zone = 'Europe/Berlin'
const times = [fromZonedTime('2026-10-25T02:30:00', zone), new TZDate(2026, 9, 25, 2, 30, zone), DateTime.fromISO('2026-10-25T02:30', { zone }).toJSDate()]
console.log(process.env.TZ, ...times.map((time) => new Date(+time).toISOString().slice(11, 16) + 'Z'))
JS
seen=$(for zone in UTC Europe/Berlin America/New_York Asia/Tokyo; do TZ=$zone node_modules/.bin/node try.mjs; done)
printf 'TZ date-fns-tz @date-fns/tz luxon\n%s\n' "$seen"
[ "$seen" = 'UTC 01:30Z 01:30Z 01:30Z
Europe/Berlin 01:30Z 00:30Z 01:30Z
America/New_York 00:30Z 01:30Z 01:30Z
Asia/Tokyo 01:30Z 00:30Z 01:30Z' ]
