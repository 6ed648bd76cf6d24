"""Prints the slots of cadences as Python's zoneinfo has them: one JSON object a line, and first the database's folder.

usage: slots.py    (needs the package tzdata, so that both sides read the same version)

A slot is the first instant at which the local clock has reached its time, whatever the clock did before.
"""

import calendar
import importlib.resources
import json
import zoneinfo
from datetime import UTC, datetime, time, timedelta

ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Pacific/Apia",
    "Asia/Kathmandu",
]
FROM, TO = datetime(2010, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)
HOURLY_FROM, HOURLY_TO = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
HOUR, QUARTER = timedelta(hours=1), timedelta(minutes=15)


def weekday(day):
    return day.weekday() < 5


def on_day_of_month(day, wanted):
    return day.day == min(wanted, calendar.monthrange(day.year, day.month)[1])


CADENCES = {
    "daily 02:30": lambda day: [time(2, 30)],
    "weekdays 08:00": lambda day: [time(8)] if weekday(day) else [],
    "weekly sun 02:15": lambda day: [time(2, 15)] if day.weekday() == 6 else [],
    "monthly 1 00:30": lambda day: [time(0, 30)] if on_day_of_month(day, 1) else [],
    "monthly 30 02:15": lambda day: [time(2, 15)] if on_day_of_month(day, 30) else [],
    "cron 0 9,17 * * mon-fri": lambda day: [time(9), time(17)] if weekday(day) else [],
    "cron 30 0-3 1-7 */2 *": lambda day: [time(h, 30) for h in range(4)] if day.day < 8 and day.month % 2 else [],
    "cron 0 0 13 * fri": lambda day: [time(0)] if day.day == 13 or day.weekday() == 4 else [],
}


def reached(local, zone):
    def shown(instant):
        return instant.astimezone(zone).replace(tzinfo=None)

    instant = local.replace(tzinfo=zone).astimezone(UTC)
    if shown(instant) == local:
        return instant
    before = instant - timedelta(hours=25)
    while instant - before > timedelta(seconds=1):
        middle = before + timedelta(seconds=(instant - before) // timedelta(seconds=2))
        before, instant = (middle, instant) if shown(middle) < local else (before, middle)
    return instant


def slots_of(times, zone):
    days = (FROM.date() + timedelta(days=n) for n in range(-2, (TO - FROM).days + 2))
    slots = {reached(datetime.combine(day, at), zone) for day in days for at in times(day)}
    return sorted(slot for slot in slots if FROM < slot < TO)


def hourly(minute, zone):
    """Every zone here is whole quarters of an hour from UTC."""
    quarters = [HOURLY_FROM + n * QUARTER for n in range(1, (HOURLY_TO - HOURLY_FROM) // QUARTER)]
    offsets = {at: at.astimezone(zone).utcoffset() for at in [HOURLY_FROM, *quarters]}
    slots = [at for at in quarters if at.astimezone(zone).minute == minute]
    # Where more than an hour would pass between two of them, there is one at the change of the clocks.
    changes = [at for at in quarters if offsets[at] != offsets[at - QUARTER]]
    long = [pair for pair in zip(slots, slots[1:]) if pair[1] - pair[0] > HOUR]
    return sorted(slots + [at for at in changes for before, after in long if before < at < after])


def main():
    folder = str(importlib.resources.files("tzdata") / "zoneinfo")
    zoneinfo.reset_tzpath(to=[folder])
    print(json.dumps(folder))
    for name in ZONES:
        zone = zoneinfo.ZoneInfo(name)
        answers = [(cadence, FROM, slots_of(times, zone)) for cadence, times in CADENCES.items()]
        answers += [(f"hourly at :{m:02}", HOURLY_FROM, hourly(m, zone)) for m in (15, 45)]
        for cadence, start, slots in answers:
            seconds = [int(slot.timestamp()) for slot in slots]
            print(json.dumps({"zone": name, "cadence": cadence, "from": int(start.timestamp()), "slots": seconds}))


main()
