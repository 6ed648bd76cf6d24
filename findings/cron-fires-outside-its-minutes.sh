#!/usr/bin/env bash
# cron 4.4.0 (npm): `30 * * * *` in Europe/Berlin in the night in which clocks go forward.
#
# Expected: each half hour, 00:30Z and 01:30Z (03:30 on the clock), as in any other night. Vixie cron (man 8 cron) makes up for times that the
# gap skipped only for jobs at a fixed hour: those with a wildcard run by the new time at once. croner 11.0.1 and cron-parser 5.10.6 do this.
# Seen: one more at 01:00Z, which is 03:00 on the clock and no half hour, and then 01:30Z.
#
# So an hourly job runs twice within half an hour, once at a minute that its expression does not have. A key for each hour or a check of the
# minute makes it harmless; a time zone of UTC avoids it.
# Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund cron@4.4.0 croner@11.0.1 cron-parser@5.10.6
cat > try.mjs <<'JS'
import { CronTime } from 'cron'
import { Cron } from 'croner'
import { CronExpressionParser } from 'cron-parser'

const [words, zone, start] = ['30 * * * *', 'Europe/Berlin', new Date('2026-03-28T23:45:00Z')]
const times = { cron: [], croner: new Cron(words, { timezone: zone }).nextRuns(4, start), 'cron-parser': [] }
const parsed = CronExpressionParser.parse(words, { tz: zone, currentDate: start })
for (let at = start; times.cron.length < 4; times.cron.push(at), times['cron-parser'].push(parsed.next().toDate()))
    at = new CronTime(words, zone).getNextDateFrom(at, zone).toJSDate()
for (const [name, list] of Object.entries(times)) console.log(name, ...list.map((time) => time.toISOString().slice(11, 16) + 'Z'))
JS
seen=$(node try.mjs)
echo "$seen"
[ "$seen" = 'cron 00:30Z 01:00Z 01:30Z 02:30Z
croner 00:30Z 01:30Z 02:30Z 03:30Z
cron-parser 00:30Z 01:30Z 02:30Z 03:30Z' ]
