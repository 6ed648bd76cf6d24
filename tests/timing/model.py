"""The rules of docs/timing.md about moments, in their plainest form: a moment is looked for, not computed.

Instants are seconds since 1970. A local time is the number of seconds that the clock on the wall shows since 1970-01-01 00:00.
zoneinfo says what it shows; PYTHONTZPATH leads to the zone files of Tidings' own bundle.
"""

import bisect
import calendar
import re
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

MINUTE, HOUR, DAY, WEEK = 60, 3600, 86_400, 7 * 86_400
# For so long after its time no time of day counts for what was put off.
GRACE = 2 * HOUR
# So often quiet hours put a digest off (docs/timing.md, "The steps to a deadline").
DEFERRALS = 14
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
UNITS = {"s": 1, "m": MINUTE, "h": HOUR, "d": DAY}


def instant(year, month=1, day=1):
    return int(datetime(year, month, day, tzinfo=UTC).timestamp())


def date_of(day):
    """The date of a number of days since 1970."""
    return date.fromordinal(day + date(1970, 1, 1).toordinal())


class Clock:
    """The clocks of a zone: what they show, and when they change."""

    STEP = 12 * HOUR

    def __init__(self, name, first=instant(2025, 6), last=instant(2034)):
        zone = ZoneInfo(name)

        def offset(at):
            return int(datetime.fromtimestamp(at, zone).utcoffset().total_seconds())

        self.starts, self.offsets = [first], [offset(first)]
        for at in range(first + self.STEP, last, self.STEP):
            if offset(at) != self.offsets[-1]:
                before, after = at - self.STEP, at
                while after - before > 1:
                    middle = (before + after) // 2
                    before, after = (middle, after) if offset(middle) == self.offsets[-1] else (before, middle)
                self.starts.append(after)
                self.offsets.append(offset(after))
        self.ends = [*self.starts[1:], last]

    def changes(self, first, last):
        return [at for at in self.starts[1:] if first <= at < last]

    def local(self, at):
        return at + self.offsets[bisect.bisect_right(self.starts, at) - 1]

    def day(self, at):
        return self.local(at) // DAY

    def pieces(self, at):
        """The times from `at` on between two changes: begin, end, and what the clock is ahead by."""
        for n in range(max(bisect.bisect_right(self.starts, at) - 1, 0), len(self.starts)):
            yield max(self.starts[n], at), self.ends[n], self.offsets[n]

    def reached(self, local):
        """The first instant at which the clock has reached this time."""
        for begin, end, offset in self.pieces(local - 2 * DAY):
            at = max(begin, local - offset)
            if at < end:
                return at
        raise ValueError(f"no clock shows {local}")

    def midnight(self, day):
        return self.reached(day * DAY)


class Quiet:
    """Quiet times in the words of tidings.toml: which minutes of the week are quiet."""

    def __init__(self, times):
        self.minutes = bytearray(7 * 24 * 60)
        for words in times:
            self._add(words)

    def _add(self, words):
        days, _, hours = words.rpartition(" ")
        first, _, last = (days or "mon-sun").partition("-")
        first, last = DAYS.index(first), DAYS.index(last or first)
        begin, end = (int(time[:2]) * 60 + int(time[3:]) for time in hours.split("-"))
        length = (end - begin) % (24 * 60) or 24 * 60
        for day in range(first, first + (last - first) % 7 + 1):
            for minute in range(length):
                self.minutes[(day * 24 * 60 + begin + minute) % len(self.minutes)] = 1

    def __call__(self, local):
        return self.minutes[self._minute(local)] == 1

    def _minute(self, local):
        return (local // 60 + 3 * 24 * 60) % len(self.minutes)  # 1970 began on a Thursday

    def next(self, local, is_quiet):
        """The first time from this one on at which an endless steady clock shows a quiet minute, or one that is not."""
        if self(local) == is_quiet:
            return local
        now = self._minute(local)
        later = self.minutes.find(is_quiet, now)
        if later < 0:
            later = self.minutes.find(is_quiet) + len(self.minutes)
        return local // 60 * 60 + (later - now) * 60


class Cadence:
    """A cadence in the words of tidings.toml."""

    def __init__(self, words):
        self.words = words
        self.kind, *rest = words.split()
        self.follows_the_calendar = self.kind not in ("instant", "after", "sliding", "never")
        self.minute = int(rest[-1][1:]) if self.kind == "hourly" and rest else 0
        if self.kind in ("after", "sliding"):
            self.wait, self.most = _seconds(rest[0]), _seconds(rest[-1])
        if self.kind in ("daily", "weekdays", "weekly", "monthly"):
            hour, minute = rest[-1].split(":")
            self.times = [int(hour) * HOUR + int(minute) * MINUTE]
            self.on = rest[0]
        if self.kind == "cron":
            minutes, hours, self.days, self.months, self.weekdays = (
                _field(field, *of) for field, of in zip(rest, CRON_FIELDS)
            )
            self.either = "*" not in rest[2] and "*" not in rest[4]
            self.times = [hour * HOUR + minute * MINUTE for hour in hours for minute in minutes]
        # The first time of a day that has some.
        self.day_time = min(self.times) if hasattr(self, "times") else None

    def is_on(self, day):
        weekday, on = (day + 3) % 7, date_of(day)
        match self.kind:
            case "daily":
                return True
            case "weekdays":
                return weekday < 5
            case "weekly":
                return DAYS[weekday] == self.on
            case "monthly":
                return on.day == min(int(self.on), calendar.monthrange(on.year, on.month)[1])
        kinds = (on.day in self.days, (weekday + 1) % 7 in self.weekdays)
        return on.month in self.months and (any(kinds) if self.either else all(kinds))

    def period(self, day):
        """The day, week or month of a cadence that has one slot in it."""
        on = date_of(day)
        return {"daily": day, "weekdays": day, "weekly": (day + 3) // 7, "monthly": on.year * 12 + on.month}.get(self.kind)

    def slots(self, clock, first, last):
        """The slots after `first` and before `last`."""
        if self.kind == "hourly":
            return self._hourly(clock, first, last)
        days = (day for day in range(clock.day(first) - 2, clock.day(last) + 3) if self.is_on(day))
        slots = {clock.reached(day * DAY + time) for day in days for time in self.times}
        return sorted(slot for slot in slots if first < slot < last)

    def _hourly(self, clock, first, last):
        slots, changes = [], []
        for begin, end, offset in clock.pieces(first - 2 * HOUR):
            if begin >= last + 2 * HOUR:
                break
            shown = begin + (self.minute * MINUTE - begin - offset) % HOUR
            slots += range(shown, min(end, last + 2 * HOUR), HOUR)
            changes.append(end)
        # Where more than an hour would pass between two of them, there is one at the change of the clocks.
        for change in changes:
            after = bisect.bisect_right(slots, change)
            if 0 < after < len(slots) and slots[after] - slots[after - 1] > HOUR:
                slots.insert(after, change)
        return [slot for slot in slots if first < slot < last]


# The first and last number of each field of a schedule, and the names of its numbers.
MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
CRON_FIELDS = ((0, 59, {}), (0, 23, {}), (1, 31, {}), (1, 12, dict(zip(MONTHS, range(1, 13)))),
               (0, 6, dict(zip("sun mon tue wed thu fri sat".split(), range(7)))))


def _field(words, first, last, names):
    numbers = set()
    for part in words.split(","):
        span, _, step = part.partition("/")
        begin, _, end = span.partition("-")
        if begin == "*":
            begin, end = first, last
        else:
            begin, end = (names[word] if word in names else int(word) for word in (begin, end or begin))
        numbers |= set(range(begin, end + 1, int(step or 1)))
    return {number % 7 for number in numbers} if last == 6 else numbers


def _seconds(word):
    count, unit = re.fullmatch(r"(\d+)([smhd])", word).groups()
    return int(count) * UNITS[unit]


class Moments:
    """When a person gets digests: their zone, quiet times, share of the spread, and cadence."""

    def __init__(self, clock, quiet, share, cadence):
        self.clock, self.quiet, self.share, self.cadence = clock, quiet, share, cadence

    def is_quiet(self, at):
        return self.quiet(self.clock.local(at))

    def first(self, at, is_quiet):
        """The first instant from `at` on that is quiet, or that is not."""
        for begin, end, offset in self.clock.pieces(at):
            found = self.quiet.next(begin + offset, is_quiet) - offset
            if found < end:
                return found
        raise ValueError(f"nothing after {at}")

    def past_quiet(self, at):
        """Rule 12: the end of quiet hours plus the share of the spread, again where that is quiet too."""
        end = at
        for _ in range(DEFERRALS):
            if not self.is_quiet(at):
                return at
            end = self.first(at, False)
            at = end + self.share
        return end if self.is_quiet(at) else at

    def slot(self, at):
        """The cadence's first slot after `at`."""
        for days in (3, 40, 500):
            slots = self.cadence.slots(self.clock, at, at + days * DAY)
            if slots:
                return slots[0]
        raise ValueError(f"{self.cadence.words} has no slot after {at}")

    def due(self, opened_at, last_at):
        """The time of the cadence, before the spread and quiet hours."""
        match self.cadence.kind:
            case "instant" | "never":
                return opened_at
            case "after":
                return opened_at + self.cadence.wait
            case "sliding":
                return min(last_at + self.cadence.wait, opened_at + self.cadence.most)
        return self.slot(opened_at)

    def deadline(self, opened_at, last_at=None):
        """A first deadline (rules 8 to 12)."""
        due = self.due(opened_at, opened_at if last_at is None else last_at)
        return self.past_quiet(due + self.share if self.cadence.follows_the_calendar else due)

    def is_good(self, at, due_at):
        """What was due at `due_at` may go: it is not quiet, and the time of its day has come."""
        return not self.is_quiet(at) and self._is_open(at, due_at)

    def good_until(self, at):
        """The end of the good moments at `at`, or of their day."""
        return min(self.first(at, True) if any(self.quiet.minutes) else at + DAY, self.clock.midnight(self.clock.day(at) + 1))

    def _is_open(self, at, due_at):
        day = self.clock.day(at)
        if self.cadence.day_time is None or day <= self.clock.day(due_at + GRACE):
            return True
        opening = self._opening(day)
        return opening is not None and opening <= at

    def _opening(self, day):
        """The cadence's time of this day, if the spread and quiet hours leave it on this day. If they lead it past midnight, the first of
        those of earlier days that they led to this one."""
        own = self._put_off(day)
        if self.clock.day(own) == day:
            return own
        earlier = (self._put_off(before) for before in range(day - 10, day))
        return min((at for at in earlier if self.clock.day(at) == day), default=None)

    def _put_off(self, day):
        return self._first_end(self.clock.reached(day * DAY + self.cadence.day_time) + self.share)

    def _first_end(self, at):
        """One end of quiet hours, plus the share of the spread unless that is quiet again."""
        if not self.is_quiet(at):
            return at
        end = self.first(at, False)
        return end if self.is_quiet(end + self.share) else end + self.share

    def put_off(self, at, due_at):
        """The later moment at which a digest goes whose wait ends at `at`. `None`: it goes at `at`."""
        moment = self.next_good(at, due_at)
        return moment if moment > at else None

    def next_good(self, at, due_at=instant(2000)):
        """The next good moment for what was due at `due_at` (rule 56)."""
        at = self._first_end(at)
        if self._is_open(at, due_at):
            return at
        openings = map(self._opening, range(self.clock.day(at), self.clock.day(at) + 20))
        return next(opening for opening in openings if opening is not None and opening > at)


def limit_ends(clock, at, seconds):
    """The end of a throttle or a cap that counts from `at`: whole days are those of the calendar."""
    return at + seconds if seconds % DAY else clock.midnight(clock.day(at) + seconds // DAY)
