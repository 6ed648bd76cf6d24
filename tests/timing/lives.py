"""Months of a person who gets digests while obstacles come and go, and what must hold for each digest.

The product decides: each plan, each admission and each end of a wait is a question to it. The obstacles and the order of the steps are
here. A life is a generator of questions, so that many lives can ask at once.
"""

import bisect
from dataclasses import dataclass, field
from datetime import UTC, datetime

from model import DAY, HOUR, MINUTE, Cadence, Moments, Quiet, limit_ends

# The delays between attempts. After the last of them a digest fails, which is another subject.
RETRIES = (MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 8 * HOUR)
# An open breaker is asked again so often.
PROBE = 15 * MINUTE
# A change so close before the deadline does not move it (rule 15).
GRACE = 15 * MINUTE
# A window whose recipient is unknown ends after this time (rule 33).
UNKNOWN_AFTER = 7 * DAY
# What stops a digest that is made already, and whether a wait of its own follows the end.
HOLDS = ("hold", "hold_of_many")


class Fault(Exception):
    """What a digest did against a rule."""


@dataclass
class Obstacle:
    kind: str
    begin: int
    end: int


@dataclass
class Person:
    """What the product is told. Times and spans are seconds."""

    user: str
    cadence: str
    zone: str
    quiet: list
    spread: int | None
    throttle: int | None
    is_known: bool = True
    revision: int = 0
    changed_at: int | None = None
    last_sent_at: int | None = None
    last_slot_at: int | None = None
    # Time, cadence and zone of the last digest.
    last_schedule: tuple | None = None
    paused_until: int | None = None
    stopped: tuple | None = None

    def moments(self, clock, share):
        return Moments(clock(self.zone), Quiet(self.quiet), share, Cadence(self.cadence))


@dataclass
class Digest:
    """A digest that went out, with the moments that are good for its person."""

    moments: Moments
    # The schedule before a change of the open window.
    before: Moments | None
    opened_at: int
    last_at: int
    due_at: int
    # The end of `undo`, if nothing is late: the ledger has it as the digest's time.
    out_at: int = 0
    changed_at: int = 0
    # The deadline before a change.
    promised_at: int | None = None
    zone: str = ""
    # Nothing about the person has changed before the claim.
    is_plain: bool = True
    claimed_at: int = 0
    is_claimed: bool = False
    # The time from which limits count it, by the product; `None`: when it goes out.
    counts_from: int | None = None
    sent_at: int = 0
    # The moments at the time of sending, which differ after a change.
    moments_then: Moments | None = None
    # An operator released it by its name.
    is_released: bool = False
    # Obstacles of this digest alone: waits between attempts, `undo`, shares of a spread, limits.
    waits: list = field(default_factory=list)

    @property
    def moves(self):
        """Quiet hours or a spread move deadlines from their slots."""
        return self.moments.share > 0 or any(self.moments.quiet.minutes)

    def wait(self, kind, begin, end):
        self.waits.append(Obstacle(kind, begin, end))
        return end


class Life:
    def __init__(self, person, events, obstacles, changes, undo, clock):
        self.person, self.events, self.obstacles, self.changes = person, events, obstacles, changes
        self.undo, self.clock = undo, clock
        self.digests = []

    def ask(self, question, **values):
        return {"ask": question, "person": vars(self.person), **values}

    # What is in the way

    def obstacle(self, at, *kinds):
        return next((o for o in self.obstacles if o.kind in kinds and o.begin <= at < o.end), None)

    def back(self, at):
        """The time at which a worker is there."""
        while away := self.obstacle(at, "away"):
            at = away.end
        return at

    def note(self, now):
        """Lets the person have what the ledger has at this time."""
        person = self.person
        pause, stop = self.obstacle(now, "pause"), self.obstacle(now, "stop")
        person.paused_until = pause and pause.end
        person.stopped = stop and (stop.begin, stop.end)
        person.is_known = not self.obstacle(now, "unknown")
        while self.changes and self.changes[0][0] <= now:
            person.changed_at, values = self.changes.pop(0)
            person.revision += 1
            vars(person).update(values)

    # The steps of the workflow

    def run(self):
        self.share, self.overdue_share = yield self.ask("shares")
        left = list(self.events)
        while left:
            digest = yield from self.window(left)
            if digest.is_claimed:
                yield from self.deliver(digest)
                self.digests.append(digest)
            left = left[bisect.bisect_right(left, digest.claimed_at):]

    def window(self, events):
        """The next window until its claim."""
        opened_at = last_at = events[0]
        now = self.back(max(opened_at, self.digests[-1].sent_at if self.digests else 0))
        self.note(now)
        plan = yield self.ask("plan", opened_at=opened_at, last_at=opened_at, before=None, now=now)
        moments, before, promised_at = self.person.moments(self.clock, self.share), None, None
        while True:
            slides = events[bisect.bisect_right(events, last_at):] if self.person.cadence.startswith("sliding") else []
            event = next((at for at in slides if at <= plan["due_at"]), None)
            change = next((at for at, _ in self.changes if at < plan["due_at"]), None)
            if event is None and change is None:
                break
            if event is not None and (change is None or event < change):
                last_at = event
            now, revision = self.back(max(now, min(at for at in (event, change) if at is not None))), self.person.revision
            self.note(now)
            due_at = plan["due_at"]
            plan = yield self.ask("plan", opened_at=opened_at, last_at=last_at, before=plan["plan"], now=now)
            if self.person.revision != revision:
                promised_at = due_at
                moments, before = self.person.moments(self.clock, self.share), moments
        digest = Digest(moments, before, opened_at, last_at, plan["due_at"])
        digest.promised_at = promised_at
        digest.changed_at = self.person.changed_at if before else 0
        digest.zone, digest.is_plain = self.person.zone, self.person.revision == 0
        yield from self.claim(digest, plan, max(now, plan["due_at"]))
        return digest

    def claim(self, digest, plan, now):
        """The claim of a due window, as soon as it is admitted."""
        limit_ended_at = unknown_since = None
        while True:
            now = self.back(now)
            if hold := self.obstacle(now, *HOLDS):
                now = self.released(digest, hold)
                continue
            self.note(now)
            answer = yield self.ask("claim", opened_at=digest.opened_at, due_at=digest.due_at, now=now,
                                    revision=plan["plan"]["revision"], released=digest.is_released,
                                    unknown_since=unknown_since)
            if "admitted" in answer:
                break
            if "changed" in answer:
                plan = yield self.ask("plan", opened_at=digest.opened_at, last_at=digest.last_at, before=plan["plan"], now=now)
                digest.before, digest.moments = digest.moments, self.person.moments(self.clock, self.share)
                digest.changed_at, digest.zone, digest.is_plain = self.person.changed_at, self.person.zone, False
                digest.promised_at, digest.due_at, limit_ended_at = digest.due_at, plan["due_at"], None
                now = max(now, digest.due_at)
                continue
            if "refused" in answer and unknown_since is not None and now - unknown_since >= UNKNOWN_AFTER:
                digest.claimed_at = now
                return
            if "refused" in answer or answer["until"] <= now:
                raise Fault(f"the claim at {now} is answered by {answer}")
            limit_ended_at = answer.get("limit_ends_at") or limit_ended_at
            unknown_since = answer.get("unknown_since")
            if not self.person.is_known and not self.person.stopped and not self.person.paused_until:
                digest.wait("backoff", now, answer["until"])
            until = answer["until"]
            if self.person.stopped:
                # The end of an operator's pause is a signal, as a change is.
                end = self.person.stopped[1]
                until = min(until, digest.wait("share", end, end + answer["share"]))
            now = min([until, *(at for at, _ in self.changes)])
        digest.claimed_at, digest.is_claimed = now, True
        digest.counts_from = yield self.ask("counts_from", due_at=digest.due_at, limit_ended_at=limit_ended_at, now=now)

    def released(self, digest, hold):
        """The end of a hold, and of the key's share of the spread where it was released with many."""
        digest.is_released = hold.kind == "hold"
        return hold.end if digest.is_released else digest.wait("share", hold.end, hold.end + self.overdue_share)

    def deliver(self, digest):
        """Attempts until one succeeds. The end of each wait is put off to the next good moment."""
        now, wait = digest.claimed_at, None
        digest.out_at = digest.due_at + (self.undo or 0)
        if self.undo and not digest.is_released:
            now, wait = digest.wait("undo", now, now + self.undo), "undo"
        retries = iter(RETRIES)
        while True:
            if self.obstacle(now, "away"):
                now, wait = self.back(now), "late_worker"
            elif hold := self.obstacle(now, *HOLDS):
                now = self.released(digest, hold)
                wait = "released" if digest.is_released else "hold_of_many"
            elif stop := self.obstacle(now, "stop"):
                now, wait = digest.wait("share", stop.end, stop.end + self.overdue_share), "pause_of_operator"
            elif wait:
                self.note(now)
                moment = yield self.ask("put_off", wait=wait, due_at=digest.out_at, **{"from": now})
                now, wait = moment or now, wait if moment else None
            elif self.obstacle(now, "refused") and (delay := next(retries, None)):
                now, wait, digest.is_released = digest.wait("retry", now, now + delay), "retry", False
            elif self.obstacle(now, "breaker"):
                now, wait, digest.is_released = digest.wait("probe", now, now + PROBE), "breaker", False
            else:
                break
        digest.sent_at = now
        digest.moments_then = self.person.moments(self.clock, self.share)
        self.person.last_sent_at = now
        self.person.last_schedule = (min(digest.due_at, now), digest.moments.cadence.words, digest.zone)
        self.person.last_slot_at = now if digest.counts_from is None else digest.counts_from

    # The rules

    def check(self):
        """That each digest went out at a good moment of its own period."""
        counted_from = None
        for before, digest in zip([None, *self.digests], self.digests):
            try:
                self.check_moment(digest)
                self.check_period(before, digest)
                self.check_idle(before, digest, counted_from)
            except Fault as fault:
                raise Fault(f"{fault}\n{self.story(digest, before)}") from None
            counted_from = self.counted_from(digest, counted_from)

    def story(self, digest, before):
        """What happened to a digest, in local times."""
        clock = digest.moments.clock

        def shown(at):
            return f"{datetime.fromtimestamp(clock.local(at), UTC):%a %Y-%m-%d %H:%M:%S}"

        near = [o for o in self.obstacles + digest.waits if o.end > digest.opened_at and o.begin <= digest.sent_at]
        lines = [f"{name} {shown(at)}" for name, at in vars(digest).items() if name.endswith("_at") and at]
        lines += [f"{o.kind} {shown(o.begin)} to {shown(o.end)}" for o in near]
        person = ", ".join(f"{name} {value}" for name, value in vars(self.person).items() if value)
        last = f"; the digest before was sent {shown(before.sent_at)}" if before else ""
        return f"    {person}, share {self.share}, changed {digest.before is not None}{last}\n    " + "\n    ".join(lines)

    def check_moment(self, digest):
        """Never in quiet hours, and never before its own slot."""
        sent_at = digest.sent_at
        # A choice within the grace is one for the next window (rule 15), and the deadline stands.
        stands = sent_at == digest.due_at == digest.promised_at and 0 <= sent_at - digest.changed_at <= GRACE
        moments = digest.before if stands else digest.moments_then
        if not digest.is_released and not moments.is_good(sent_at, digest.out_at):
            raise Fault(f"sent at {sent_at}, which is {'quiet' if moments.is_quiet(sent_at) else 'too early in the day'}")
        schedules = [digest.moments, digest.before] if digest.before else [digest.moments]
        slot = min(schedule.due(digest.opened_at, digest.last_at) for schedule in schedules)
        if min(sent_at, digest.due_at) < slot:
            raise Fault(f"due at {digest.due_at} and sent at {sent_at}, before its slot at {slot}")
        # A longer wait of `after` or `sliding` is a less frequent cadence, and moves the events to its end.
        calendar = digest.moments.cadence.follows_the_calendar
        kinds = {schedule.cadence.kind if calendar else schedule.cadence.words for schedule in schedules}
        if digest.promised_at and len(kinds) == 1 and not digest.moves and digest.due_at > digest.promised_at + DAY:
            raise Fault(f"due at {digest.due_at}, more than a day after {digest.promised_at}, which was promised")
        deadline = digest.moments.deadline(digest.opened_at, digest.last_at)
        if digest.is_plain and digest.due_at != deadline:
            raise Fault(f"due at {digest.due_at}, and not at {deadline}")

    def check_period(self, before, digest):
        """At most one digest for a period of the cadence, and after a change for a day, week or month."""
        if not before or digest.before or before.before or not digest.moments.cadence.follows_the_calendar:
            return
        if (before.moments.cadence.words, before.zone) == (digest.moments.cadence.words, digest.zone):
            slots = [digest.moments.slot(one.opened_at) for one in (before, digest)]
            if slots[0] >= slots[1]:
                raise Fault(f"two digests for the period that begins at {slots[0]}")
        elif before.moments.cadence.kind == digest.moments.cadence.kind and not (digest.moves or before.moves):
            periods = [one.moments.cadence.period(one.moments.clock.day(one.due_at)) for one in (before, digest)]
            if periods[0] is not None and periods[0] >= periods[1]:
                raise Fault(f"two digests for one day, week or month, the second one due at {digest.due_at}")

    def check_idle(self, before, digest, counted_from):
        """No period without a digest: from its deadline on, obstacles cover all of the time until it is sent, but for shares of spreads."""
        obstacles = self.obstacles + digest.waits
        if self.person.throttle and counted_from is not None:
            end = limit_ends(digest.moments.clock, counted_from, self.person.throttle)
            obstacles = [*obstacles, Obstacle("throttle", counted_from, end)]
        obstacles = [o for o in obstacles if o.end > digest.due_at and o.begin < digest.sent_at
                     and (o.kind not in ("refused", "breaker"))]
        # A key has one digest under way at a time (rule 7).
        schedules = [digest.moments, digest.moments_then]  # which differ after a change during the delivery
        at, idle = max(digest.due_at, digest.changed_at, before.sent_at if before else 0), 0
        allowed = 2 * (self.share + self.overdue_share + MINUTE)
        while at < digest.sent_at:
            if covering := [o.end for o in obstacles if o.begin <= at < o.end]:
                at = max(covering)
                continue
            due_at = digest.due_at if at < digest.claimed_at else digest.out_at
            if bad := next((moments for moments in schedules if not moments.is_good(at, due_at)), None):
                at = bad.next_good(at, due_at)
            else:
                ends = [digest.sent_at, *(moments.good_until(at) for moments in schedules)]
                end = min(ends + [o.begin for o in obstacles if o.begin > at])
                idle, at = idle + end - at, end
        if idle > allowed:
            raise Fault(f"due at {digest.due_at} and sent at {digest.sent_at}; nothing was in the way for {idle} s")

    def counted_from(self, digest, before):
        """The time from which a throttle counts: the slot, so that a late digest moves no other; else when it went out. A throttle that is
        longer than the time between two slots counts from the good moment after its own end, if it put the digest off."""
        moments, throttle = digest.moments, self.person.throttle
        if not throttle or not moments.cadence.follows_the_calendar:
            return digest.sent_at
        at = digest.due_at
        if before is not None and limit_ends(moments.clock, at, throttle) > moments.slot(at):
            end = limit_ends(moments.clock, before, throttle)
            if end > at:
                # Whole days end for everybody at midnight, and each key adds its share.
                share = self.overdue_share if throttle % DAY == 0 else 0
                at = max(at, moments.next_good(end + share, at))
        return min(at, digest.claimed_at)
