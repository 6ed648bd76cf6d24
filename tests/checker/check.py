"""Checks that Tidings kept its word: every acknowledged event is accounted for, and no mail is one too many.

Reads the ids that the producer got acknowledged, the mails that the sink received, and the ledger, and compares them.
Shares no code with the product, on purpose.

    python3 tests/checker/check.py --acknowledged ids.ndjson --mails FOLDER --ledger FILE|postgres://...

More files let it look at more: what was taken back before it came, single messages that were handed over, and what was open
when nothing was broken any more.
"""

import argparse
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

from reading import COUNT_HEADER, DIGEST_HEADER, Told, lines, read_identities, read_ledger, read_mails, read_windows

# Ends with a mail at the relay: certainly, or perhaps.
CERTAIN, PERHAPS = "sent", "ambiguous"
# Of attempts that came to nothing because a later one, or an end, was there first.
STOPPED = ("fenced", "cancelled")
# Ends of a single message. What was sent may have been delivered since.
ENDS = ("sent", "delivered", "failed", "ambiguous", "suppressed", "cancelled")
# The reasons of a digest that ended because it had no events begin so.
EMPTY = "every event was "
# The recipient is out of the digest type from here on.
WITHDRAW = "withdraw consent"
# What is due may take so long to become a digest, in milliseconds.
OVERDUE = 60_000


# --- judging -------------------------------------------------------------------------------------------------------


def violations(told, mails, ledger, skew):
    """(rule, what broke it) of each violation."""
    yield from judge_acknowledged(told.acknowledged, told.lost, ledger)
    yield from judge_events(ledger)
    yield from judge_retracted(told.retracted, ledger)
    yield from judge_digests(mails, ledger)
    yield from judge_singles(told.sent, mails, ledger)
    yield from judge_attempts(ledger, skew)
    yield from judge_mails(mails, ledger)
    yield from judge_copies(mails)
    yield from judge_open(told.open)
    yield from judge_returned(told.returned, ledger)
    yield from judge_reported(told.reported, ledger)
    yield from judge_clicked(told.clicked, ledger, skew)
    yield from judge_erased(told.erased, ledger)


def judge_acknowledged(acknowledged, lost, ledger):
    """Every acknowledged event is in the ledger, except where Temporal lost it with its window, and no inbox had it."""
    known, excused = {event.identity for event in ledger.events}, set(lost)
    for identity in dict.fromkeys(acknowledged):
        if identity not in known and identity not in excused:
            yield "acknowledged event is not in the ledger", "/".join(identity)


def judge_events(ledger):
    """Every event is in exactly one digest, which has a recorded end that is about it, and did not give it back."""
    places = defaultdict(list)
    for event in ledger.events:
        places[event.identity].append(event)
    for identity, rows in places.items():
        name = "/".join(identity)
        if len(rows) > 1:
            yield "event is in more than one digest", f"{name}: {', '.join(row.digest_id for row in rows)}"
        for event in rows:
            digest = ledger.digests.get(event.digest_id)
            if digest is None:
                yield "event is in a digest that does not exist", f"{name}: {event.digest_id}"
            elif not digest.outcome:
                yield "digest has no recorded outcome", f"{event.digest_id} ({digest.state}) with {name}"
            elif digest.outcome == "skipped" and digest.why.startswith(EMPTY):
                yield "event is in a digest that ended because it had none", f"{name}: {event.digest_id}"
            elif event.returned:
                yield "event was given back and is in no later digest", f"{name}: {event.digest_id}"


def judge_retracted(retracted, ledger):
    """What was taken back before it came is in no digest that was sent."""
    places = {event.identity: event.digest_id for event in ledger.events}
    for identity in dict.fromkeys(retracted):
        digest = ledger.digests.get(places.get(identity))
        if digest is not None and digest.outcome in (CERTAIN, PERHAPS):
            yield "retracted event is in a digest that was sent", f"{'/'.join(identity)}: {places[identity]}"


def judge_digests(mails, ledger):
    """A sent digest has one mail, and another only for an attempt that was ambiguous. One that was not sent says why."""
    received = Counter(mail.digest_id for mail in mails)
    for digest_id, digest in ledger.digests.items():
        count, ambiguous = received[digest_id], ledger.ambiguous[digest_id]
        if digest.outcome == CERTAIN and count == 0:
            yield "sent digest has no mail", digest_id
        if digest.outcome not in (CERTAIN, "") and not digest.why:
            yield "digest that was not sent has no reason", f"{digest_id} is {digest.outcome}"
        # The attempt that was sent, and those of which nobody knows. Without a sent one, only those.
        most = ambiguous + (digest.outcome == CERTAIN)
        if count > max(most, 1):
            yield "digest has a mail too many", f"{digest_id}: {count} mails, {ambiguous} ambiguous attempts"


def judge_singles(sent, mails, ledger):
    """A single message that was handed over has an end. It has a mail for each attempt that may have brought one, at most."""
    received = Counter(mail.digest_id for mail in mails)
    brought = Counter(attempt.message for attempt in ledger.attempts if attempt.kind in (CERTAIN, PERHAPS))
    for message in dict.fromkeys(sent):
        if message not in ledger.singles:
            yield "single message is not in the outbox", message
    for message, state in ledger.singles.items():
        if state not in ENDS:
            yield "single message has no end", f"{message} is {state}"
        if state in ("sent", "delivered") and received[message] == 0:
            yield "sent message has no mail", message
        if received[message] > brought[message]:
            yield "single message has a mail too many", f"{message}: {received[message]} mails, {state}"


def judge_attempts(ledger, skew):
    """Nothing that has an end has an attempt under way, and none began after somebody ended it: dropped, cancelled."""
    ended = {digest_id for digest_id, digest in ledger.digests.items() if digest.outcome}
    ended.update(message for message, state in ledger.singles.items() if state in ENDS)
    begun = defaultdict(list)
    for attempt in ledger.attempts:
        begun[attempt.message].append(attempt)
        if not attempt.kind and attempt.message in ended:
            yield "attempt goes on after the end", f"{attempt.message}, attempt {attempt.number}"
    for digest_id, closed_at, until in closed_times(ledger.audit):
        for attempt in begun[digest_id]:
            # One that was under way, and that the close stopped, says so. Its times are those before it had to wait.
            stopped = attempt.kind in STOPPED and attempt.fenced_at == closed_at
            if closed_at + skew < attempt.begun_at < until - skew and not stopped:
                yield "attempt began after a drop or cancel", (
                    f"{digest_id}, attempt {attempt.number} ({attempt.kind}): "
                    f"{attempt.begun_at - closed_at} ms after the close at {closed_at}"
                )


def closed_times(audit):
    """(digest_id, from, to) of each time for which a digest was closed by a command, and by nobody reopened."""
    closed = {}
    for entry in audit:
        if entry.action == "close":
            closed.setdefault(entry.digest_id, entry.acted_at)
        elif entry.digest_id in closed:
            yield entry.digest_id, closed.pop(entry.digest_id), entry.acted_at
    for digest_id, closed_at in closed.items():
        yield digest_id, closed_at, float("inf")


def judge_copies(mails):
    """All mails of a digest or message are the same, byte by byte, and no other has their Message-ID."""
    first = {}
    owners = {}
    for mail in mails:
        same = first.setdefault(mail.digest_id, mail)
        if (mail.message_id, mail.sha256) != (same.message_id, same.sha256):
            yield "mails of one digest differ", f"{same.name} and {mail.name} ({mail.digest_id})"
        owner = owners.setdefault(mail.message_id, mail)
        if owner.digest_id != mail.digest_id:
            yield "mails of two digests have one Message-ID", f"{owner.name} and {mail.name} ({mail.message_id})"


def judge_open(windows):
    """When nothing is broken, an open window waits for something: its time, the next attempt, or a release."""
    for window in windows:
        waits = (
            window.state == "idle"
            or (window.state == "held" and window.held)
            or (window.state in ("retrying", "waiting") and (window.next_attempt_at or 0) > window.asked_at - OVERDUE)
            or (window.state == "collecting" and (window.due_at or 0) > window.asked_at - OVERDUE)
        )
        if not waits:
            yield "window is overdue without a reason", f"{'/'.join(window.key)}: {window.said}"


def judge_returned(returned, ledger):
    """A report that was read is in the ledger once, however often the mail server handed it over."""
    recorded = Counter(ledger.reports)
    for report in dict.fromkeys(returned):
        if recorded[report] != 1:
            yield "report is not in the ledger once", f"{report[0]}, {report[1]}: {recorded[report]} times"


def judge_reported(reported, ledger):
    """A webhook that was answered is in the ledger once, however often the provider sent it."""
    recorded = Counter(ledger.webhooks)
    for event in dict.fromkeys(reported):
        if recorded[event] != 1:
            yield "webhook is not in the ledger once", f"{event[0]}, event {event[1]}: {recorded[event]} times"


def judge_clicked(clicked, ledger, skew):
    """A click that was answered is in the audit trail of the digest's key, unless the consent was withdrawn already."""
    for digest_id, answered_at in dict.fromkeys(clicked):
        choices = ledger.choices[digest_id]
        before = [choice.action for choice in choices if choice.acted_at <= answered_at + skew]
        if before[-1:] != [WITHDRAW] and all(choice.actor != "recipient" for choice in choices):
            yield "click is not in the audit trail", digest_id


def judge_erased(erased, ledger):
    """The address of a person who was erased is nowhere."""
    for tenant, address in erased:
        if found := ledger.addresses.get((tenant, address.lower())):
            yield "address of an erased person is in the ledger", f"{tenant}: {', '.join(sorted(found))}"


def judge_mails(mails, ledger):
    """A mail belongs to a digest whose outcome allows one, and says its number of events, or to a single message."""
    events = Counter(event.digest_id for event in ledger.events)
    for mail in mails:
        if mail.digest_id in ledger.singles:
            continue
        digest = ledger.digests.get(mail.digest_id)
        if digest is None:
            yield "mail belongs to no digest", f"{mail.name} ({mail.digest_id or 'no ' + DIGEST_HEADER})"
            continue
        maybe = digest.outcome == PERHAPS or ledger.ambiguous[mail.digest_id] > 0
        if digest.outcome != CERTAIN and not maybe:
            yield "mail of a digest that was not sent", f"{mail.name} ({mail.digest_id} is {digest.outcome or 'open'})"
        if mail.count is None:
            yield "mail does not say its number of events", f"{mail.name} has no {COUNT_HEADER}"
        elif mail.count != events[mail.digest_id] and not digest.events_returned:
            yield "mail says another number of events than the ledger", (
                f"{mail.name} ({mail.digest_id}): {mail.count}, the ledger {events[mail.digest_id]}"
            )


# --- telling -------------------------------------------------------------------------------------------------------


def report(told, mails, ledger, skew):
    """What was looked at, and what was found."""
    found = [{"rule": rule, "detail": detail} for rule, detail in violations(told, mails, ledger, skew)]
    return {
        "acknowledged": len(set(told.acknowledged)),
        "lost": len(set(told.acknowledged) & set(told.lost) - {event.identity for event in ledger.events}),
        "retracted": len(set(told.retracted)),
        "events": len(ledger.events),
        "digests": len(ledger.digests),
        "outcomes": counted(digest.outcome or "none" for digest in ledger.digests.values()),
        "singles": len(ledger.singles),
        "attempts": counted(attempt.kind or "under way" for attempt in ledger.attempts),
        "mails": len(mails),
        "second_mails": len(mails) - len({mail.digest_id for mail in mails}),
        "ambiguous_attempts": sum(ledger.ambiguous.values()),
        "violations": found,
    }


def counted(names):
    return dict(sorted(Counter(names).items()))


def tell(result):
    def each(name):
        return ", ".join(f"{count} {kind}" for kind, count in result[name].items()) or "none"

    print(f"acknowledged {result['acknowledged']}, in the ledger {result['events']}, lost with Temporal's data {result['lost']}")
    print(f"digests      {result['digests']} ({each('outcomes')}), single messages {result['singles']}")
    print(f"attempts     {each('attempts')}")
    print(f"mails        {result['mails']}, of them second ones {result['second_mails']}")
    print(f"ambiguous    {result['ambiguous_attempts']} attempts")
    for violation in result["violations"]:
        print(f"VIOLATION {violation['rule']}: {violation['detail']}")
    print(f"{len(result['violations'])} violations")


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Compares acknowledged events, received mails and the ledger.")
    parser.add_argument("--acknowledged", type=Path, required=True, metavar="FILE", help="NDJSON: tenant, user, digest, event_id")
    parser.add_argument("--mails", type=Path, required=True, metavar="FOLDER", help="the sink's *.eml files")
    parser.add_argument("--ledger", required=True, metavar="FILE|URL", help="SQLite file, or postgres:// URL (needs psql)")
    parser.add_argument("--retracted", type=Path, metavar="FILE", help="the same of events taken back before they came")
    parser.add_argument("--sent", type=Path, metavar="FILE", help="NDJSON: id of each single message handed over")
    parser.add_argument("--open", type=Path, metavar="FILE", help="NDJSON: what was open when nothing was broken")
    parser.add_argument("--returned", type=Path, metavar="FILE", help="NDJSON: id and status of each report that was read")
    parser.add_argument("--reported", type=Path, metavar="FILE", help="NDJSON: id and event_id of each answered webhook")
    parser.add_argument("--clicked", type=Path, metavar="FILE", help="NDJSON: id and time of each click that was answered")
    parser.add_argument("--erased", type=Path, metavar="FILE", help="NDJSON: tenant and address of each erased person")
    parser.add_argument("--lost", type=Path, metavar="FILE", help="ids that only Temporal had when it lost its data")
    parser.add_argument("--renamed", action="append", default=[], metavar="NAME=ONE", help="a digest type's other name, and the one that counts")
    parser.add_argument("--skew", type=int, default=0, metavar="MS", help="the most by which the clocks of two machines differ")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = parser.parse_args(arguments)
    renamed = dict(names.split("=") for names in options.renamed)
    told = Told(
        read_identities(options.acknowledged, renamed),
        read_identities(options.retracted, renamed),
        [message["id"] for message in lines(options.sent)],
        read_windows(options.open),
        [(report["id"], report["status"]) for report in lines(options.returned)],
        [(event["id"], event["event_id"]) for event in lines(options.reported)],
        [(click["id"], click["answered_at"]) for click in lines(options.clicked)],
        [(person["tenant"], person["address"]) for person in lines(options.erased)],
        read_identities(options.lost, renamed),
    )
    result = report(told, read_mails(options.mails), read_ledger(options.ledger, renamed), options.skew)
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        tell(result)
    return 1 if result["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
