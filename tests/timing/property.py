#!/usr/bin/env python3
"""Compares the moments that Tidings chooses with those of model.py, and lets random people live through random obstacles.

usage: property.py PROGRAM [--seed S] [--zones N | --zone NAME]

PROGRAM is tests/timing/src/main.rs, built. Both sides read the zone files of its bundle. By default every zone takes part; N takes this
number of them, by the seed. A fault names its seed and its zone.
"""

import argparse
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import zoneinfo
from collections import Counter
from pathlib import Path

from lives import Fault, Life, Obstacle, Person
from model import DAY, DAYS, HOUR, MINUTE, WEEK, Cadence, Clock, Moments, Quiet, instant, limit_ends

FIRST, LAST = instant(2026), instant(2031)
# The slots of these go back to 2010: Apia skips a whole day, Casablanca changes its clocks four times a year, Lord Howe by half an hour.
LONG = {"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia", "Asia/Kathmandu"}
MOMENTS = 60
# More questions than a life has.
MOST_QUESTIONS = 20_000
LIVES = ("instant", "after", "sliding", "hourly", "daily", "weekdays", "weekly", "monthly", "cron")
# What may be in the way for how long.
OBSTACLES = {
    "away": 2 * DAY, "pause": 9 * DAY, "stop": 3 * DAY, "hold": 3 * DAY, "hold_of_many": 3 * DAY, "unknown": 3 * DAY,
    "refused": 8 * HOUR, "breaker": 2 * DAY,
}
# The table of docs/timing.md, as issue and page have it.
WAITS = {
    "first_deadline": "by the cadence",
    "released": "at once", "flushed": "at once", "urgent": "at once",
} | dict.fromkeys(
    "retry undo pause_of_recipient pause_of_operator hold hold_of_many breaker throttle cap unknown_recipient late_worker".split(),
    "next good moment",
)


class Product:
    """The program that answers with the product's decisions."""

    def __init__(self, program, zones):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=os.environ | {"TZDIR": zones})

    def ask(self, questions):
        self.process.stdin.write(json.dumps(questions) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"no answer to {questions}")
        return json.loads(answer)


# What is drawn


def pick_time(draw):
    """A time of day: often one at which clocks change somewhere."""
    minute = draw.choice([draw.randrange(0, 240, 15), draw.randrange(0, 1440, 30), draw.randrange(1440)])
    return f"{minute // 60:02}:{minute % 60:02}"


def pick_span(draw, least, most):
    seconds = draw.randint(least, most)
    return f"{seconds // MINUTE}m" if seconds >= 10 * MINUTE else f"{seconds}s"


def pick_cron(draw):
    minutes = draw.choice(["0", "30", "10,40", "*/20", "5-50/15", str(draw.randrange(60))])
    hours = draw.choice(["2", "9,17", "0-3", "*/6", str(draw.randrange(24)), "22-23"])
    kinds = [("*", "*"), ("*", "mon-fri"), ("1-31/2", "*"), ("13", "fri"), ("1,15", "*"), ("*", "5-7"), ("*/5", "sun")]
    days, weekdays = draw.choice(kinds)
    return f"cron {minutes} {hours} {days} {draw.choice(['*', '*', '*/2', 'jan-nov'])} {weekdays}"


def pick_cadence(draw, kind):
    match kind:
        case "after":
            return f"after {draw.choice([pick_span(draw, 1, 2 * HOUR), '3h', '1d', '2d'])}"
        case "sliding":
            return f"sliding {pick_span(draw, MINUTE, HOUR)} max {draw.choice(['2h', '5h', '1d'])}"
        case "hourly":
            return f"hourly at :{draw.choice([0, 15, 30, 45, draw.randrange(60)]):02}"
        case "weekly":
            return f"weekly {draw.choice(DAYS)} {pick_time(draw)}"
        case "monthly":
            return f"monthly {draw.choice([1, 15, 28, 29, 30, 31, draw.randint(1, 31)])} {pick_time(draw)}"
        case "cron":
            return pick_cron(draw)
        case "instant":
            return kind
    return f"{kind} {pick_time(draw)}"


def pick_quiet(draw):
    times = []
    for _ in range(draw.choice([0, 1, 1, 1, 2, 3])):
        begin, end = draw.choice([("22:00", "07:00"), ("22:00", "02:30"), ("00:00", "24:00"), (pick_time(draw), pick_time(draw))])
        days = draw.choice(["", "", "sat-sun ", f"{draw.choice(DAYS)} ", f"{draw.choice(DAYS)}-{draw.choice(DAYS)} "])
        if begin != end and not (days == "" and end == "24:00"):
            times.append(f"{days}{begin}-{end}")
    return times if not all(Quiet(times).minutes) else []


def pick_instant(draw, clock, first=FIRST, last=LAST):
    """An instant, often near a change of the clocks, often at a full minute."""
    changes = clock.changes(first, last)
    at = draw.choice(changes) + draw.randint(-30 * HOUR, 30 * HOUR) if changes and draw.random() < 0.5 else draw.randrange(first, last)
    return draw.choice([at, at // MINUTE * MINUTE, at // (30 * MINUTE) * 30 * MINUTE])


def pick_person(draw, zone, kind):
    spread = draw.choice([None, None, draw.randint(1, 90), draw.randint(60, 2 * HOUR)])
    throttle = draw.choice([None, None, None, HOUR, DAY, 2 * DAY, 7 * DAY])
    return Person(f"user-{draw.randrange(10**9)}", pick_cadence(draw, kind), zone, pick_quiet(draw), spread, throttle)


def pick_life(draw, zone, zones, kind, clock):
    """Two months of daily digests, or as many periods of another cadence as are of use."""
    person = pick_person(draw, zone, kind)
    length = {"weekly": 150 * DAY, "monthly": 400 * DAY}.get(kind, 50 * DAY if kind in ("daily", "weekdays", "cron") else 12 * DAY)
    begin = pick_instant(draw, clock(zone), FIRST, LAST - length) - draw.randrange(10 * DAY)
    rate = draw.choice([length / 200, length / 60, length / 15])
    events, at = [], begin
    while at < begin + length:
        events.append(at)
        at += 1 + int(draw.expovariate(1 / rate))
    obstacles = []
    for name in draw.choices(list(OBSTACLES), k=draw.choice([0, 2, 5, 10])):
        start = draw.randrange(begin, begin + length)
        obstacles.append(Obstacle(name, start, start + int(OBSTACLES[name] * draw.random() ** 2) + MINUTE))
    changes = []
    if draw.random() < 0.3:
        values = draw.choice([{"zone": draw.choice(zones)}, {"quiet": pick_quiet(draw)}, {"cadence": pick_cadence(draw, kind)}])
        changes.append((draw.randrange(begin, begin + length), values))
    undo = draw.choice([None, None, 2 * MINUTE, HOUR])
    return Life(person, events, obstacles, changes, undo, clock)


# What is compared


class Zone:
    """All questions about one zone."""

    def __init__(self, product, seed, name, zones, clock):
        self.product, self.name, self.zones, self.clock = product, name, zones, clock
        self.draw = random.Random(f"{seed} {name}")
        self.counts = Counter()

    def check(self):
        self.check_slots()
        self.check_moments()
        self.check_lives()
        return self.counts

    def equal(self, what, answers, wanted):
        for question, answer, own in zip(what, answers, wanted, strict=True):
            if answer != own:
                raise Fault(f"Tidings says {answer}, and the model {own}: {json.dumps(question)}")

    def check_slots(self):
        """Every cadence, from 2026 to 2030; those with many slots around each change of the clocks."""
        clock, draw = self.clock(self.name), self.draw
        weeks = [(at - WEEK, at + WEEK) for at in [*clock.changes(FIRST + WEEK, LAST - WEEK), instant(2028, 8)]]
        first = instant(2010) if self.name in LONG else FIRST
        clock = Clock(self.name, first - 40 * DAY) if self.name in LONG else clock
        questions, wanted = [], []
        for kind in ("hourly", "daily", "weekdays", "weekly", "monthly", "cron", "cron"):
            cadence = pick_cadence(draw, kind)
            for begin, end in weeks if kind in ("hourly", "cron") else [(first, LAST)]:
                questions.append({"ask": "slots", "cadence": cadence, "zone": self.name, "from": begin, "until": end})
                wanted.append(Cadence(cadence).slots(clock, begin, end))
        self.equal(questions, self.product.ask(questions), wanted)
        self.counts["slots"] += sum(map(len, wanted))

    def check_moments(self):
        """First deadlines, next good moments, and the ends of limits."""
        clock, draw = self.clock(self.name), self.draw
        persons = [pick_person(draw, self.name, draw.choice(LIVES)) for _ in range(MOMENTS)]
        shares = self.product.ask([{"ask": "shares", "person": vars(person)} for person in persons])
        questions, wanted = [], []
        for person, (share, _) in zip(persons, shares):
            moments = person.moments(self.clock, share)
            at, length = pick_instant(draw, clock), draw.choice([HOUR, 90 * MINUTE, DAY, 36 * HOUR, 2 * DAY, 7 * DAY, 30 * DAY])
            due_at = moments.deadline(at)
            later = due_at + int(3 * DAY * draw.random() ** 2)
            ends = limit_ends(clock, at, length)
            since = clock.midnight(clock.day(at) + 1 - length // DAY) - 1 if length % DAY == 0 else at - length
            wait = draw.choice([wait for wait, goes in WAITS.items() if goes != "by the cadence"])
            put_off = None if WAITS[wait] == "at once" else moments.put_off(later, due_at)
            asked = [
                ({"ask": "deadline", "person": vars(person), "opened_at": at}, due_at),
                ({"ask": "moment", "person": vars(person), "from": at}, moments.next_good(at)),
                ({"ask": "put_off", "person": vars(person), "wait": wait, "due_at": due_at, "from": later}, put_off),
                ({"ask": "limit", "zone": self.name, "length": length, "at": at}, [ends, since]),
            ]
            questions += [question for question, _ in asked]
            wanted += [own for _, own in asked]
        self.equal(questions, self.product.ask(questions), wanted)
        self.counts["moments"] += len(wanted)

    def check_lives(self):
        """One person for each kind of cadence."""
        lives = [pick_life(self.draw, self.name, self.zones, kind, self.clock) for kind in LIVES]
        runs = [life.run() for life in lives]
        asked = {run: next(run) for run in runs}
        rounds = 0
        while asked:
            rounds += 1
            if rounds > MOST_QUESTIONS:
                raise Fault(f"a wait without an end: {json.dumps(next(iter(asked.values())))}")
            answers = self.product.ask(list(asked.values()))
            asked = {run: next_question for run, answer in zip(asked, answers) if (next_question := going_on(run, answer))}
        for life in lives:
            life.check()
            self.counts["lives"] += 1
            self.counts["digests"] += len(life.digests)
            self.counts["put off"] += sum(digest.sent_at > digest.due_at for digest in life.digests)


def going_on(run, answer):
    """The next question of a life, if it has one."""
    try:
        return run.send(answer)
    except StopIteration:
        return None


# The run

WORK = {}


def start(program, folder, seed, zones):
    zoneinfo.reset_tzpath(to=[folder])
    clocks = {}

    def clock(name):
        if name not in clocks:
            clocks[name] = Clock(name)
        return clocks[name]

    WORK.update(product=Product(program, folder), seed=seed, zones=zones, clock=clock)


def check_zone(name):
    zone = Zone(WORK["product"], WORK["seed"], name, WORK["zones"], WORK["clock"])
    try:
        return name, zone.check(), None
    except Fault as fault:
        return name, zone.counts, str(fault)


def show(done, all_of_them, counts):
    filled = 40 * done // all_of_them
    words = ", ".join(f"{count:,} {what}" for what, count in counts.items())
    print(f"\r[{'#' * filled}{'.' * (40 - filled)}] {done}/{all_of_them} zones: {words} ", end="", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--zones", type=int)
    parser.add_argument("--zone")
    options = parser.parse_args()
    program = str(Path(options.program).resolve())
    with tempfile.TemporaryDirectory() as folder:
        release = subprocess.run([program, "zones", folder], check=True, capture_output=True, text=True).stdout.strip()
        zones = sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file())
        zones.remove("Factory")  # the zone of a machine that was never set up
        chosen = [options.zone] if options.zone else random.Random(options.seed).sample(zones, options.zones or len(zones))
        print(f"seed {options.seed}, zones of {release}", file=sys.stderr)
        counts, faults, done = Counter(), [], 0
        if (waits := Product(program, folder).ask([{"ask": "waits"}])[0]) != WAITS:
            faults.append(f"the table of waits is {waits}")
        begin = (program, folder, options.seed, zones)
        with multiprocessing.Pool(min(len(chosen), os.cpu_count() or 1), start, begin) as pool:
            for name, counted, fault in pool.imap_unordered(check_zone, chosen):
                counts, done = counts + counted, done + 1
                if fault:
                    faults.append(f"{name}: {fault}")
                if sys.stderr.isatty() or done == len(chosen):
                    show(done, len(chosen), counts)
    print(file=sys.stderr)
    for fault in faults:
        print(fault)
    if faults:
        print(f"{len(faults)} faults; to repeat one: ./dev check --timing --seed {options.seed} --zone NAME")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
