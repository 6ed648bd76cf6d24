#!/usr/bin/env python3
"""Runs Tidings over real mail servers as relays, and checks what arrives and what comes back.

usage: relays.py TIDINGS TEMPORAL_CLI VERIFIER_PYTHON PACKAGES [SERVER...]

TIDINGS is the program, TEMPORAL_CLI the program `temporal`, VERIFIER_PYTHON a Python with dkimpy. PACKAGES is a folder with the unpacked
packages of each server. Without a SERVER all of them run, one after the other. Only root can start them, in namespaces of its own for
mounts, network, names and processes, as `./dev check --relays` makes them: the ports are those of mail, the network has nothing but this
program. The exit code is 1 if a check fails; a server that does not start is a failed check.
"""

import base64
import email
import email.policy
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

import servers
import tidings
from internet import ADDRESSES, MISSING, Internet
from servers import SERVERS
from tidings import Tidings, eventually

VERIFIER = pathlib.Path(__file__).parent.parent / "interop/verify_dkim.py"
SECONDS = 90
# People whose mail arrives, at servers with today's extensions and at one without any.
PEOPLE = [f"{user}@{domain}.example" for user in ("ann", "bob", "cy", "dan") for domain in ("new", "old")]
# Those to whom the Internet refuses mail, by local part.
REFUSED = [f"{user}@{domain}.example" for user in ("unknown", "policy", "plain") for domain in ("new", "old")] + ["full@new.example"]
# Nobody at the relay itself.
NEMO = f"nemo@{servers.NAME}"
STRANGERS = [f"u{number}@d{number}.new.example" for number in range(6)]
# The subjects of single messages with short lines and with one long one.
SHORT, LONG = "A single message", "A long line"
# Of a relay that refuses everybody with words that nobody knows (docs/delivery.md).
MOST_ENDED = 2


class Run:
    """The checks of one server."""

    def __init__(self, name, relay, product, internet, verifier):
        self.name, self.relay, self.product, self.internet, self.verifier = name, relay, product, internet, verifier
        self.passed, self.failed = 0, []

    def check(self, what, holds, detail=""):
        print(f"    {'ok    ' if holds else 'FAILED'} {what}", flush=True)
        if holds:
            self.passed += 1
            return
        self.failed.append(f"{self.name}: {what}")
        print("".join(f"           {line[:400]}\n" for line in str(detail).splitlines()[:40]), end="", flush=True)

    def all(self):
        self.emit()
        self.product.start_worker()
        self.arrivals()
        self.contents()
        self.returns()
        self.nobody()
        self.stranger()
        if self.relay.looks_up_sender:
            self.sender()
        self.once()

    def emit(self):
        tenants = {"acme": [*PEOPLE, *REFUSED, NEMO], "strange": STRANGERS}
        if self.relay.looks_up_sender:
            tenants["missing"] = STRANGERS
        people, events = ["tenant,user,address"], []
        for tenant, addresses in tenants.items():
            for user, address in enumerate(addresses):
                people.append(f"{tenant},u{user},{address}")
                for number in range(12 if tenant == "acme" else 1):
                    events.append(event(tenant, f"u{user}", number))
        (self.product.folder / "people.csv").write_text("\n".join(people))
        (self.product.folder / "events.ndjson").write_text("\n".join(map(json.dumps, events)))
        self.product.must("recipients", "import", "people.csv")
        self.product.must("emit", "--digest", "soon", "events.ndjson")
        (self.product.folder / "text").write_text("Hello,\n.\n..\nFrom here on: ärger, žluťoučký, 日本語\n")
        # Without line breaks, as programs write it, and longer than the 998 bytes of RFC 5321.
        words = "ärger, 日本語 and more words "
        for stream, html in {"transactional": f"<p>{words}</p>\n" * 5, "bulk": f"<p>{words * 60}</p>"}.items():
            (self.product.folder / stream).write_text(html)
            parts = ("--subject", f"{LONG if stream == 'bulk' else SHORT}: ärger, 日本語", "--text", "text", "--html", stream)
            for address in PEOPLE:
                self.product.must("send", "--tenant", "acme", "--to", address, "--key", f"{stream} {address}", "--stream", stream, *parts)

    def arrivals(self):
        arrived = eventually(lambda: all(len(self.internet.to(address)) >= 3 for address in PEOPLE), SECONDS)
        late = {address: self.product.story(address) for address in PEOPLE if len(self.internet.to(address)) < 3}
        self.check(f"{3 * len(PEOPLE)} digests and single messages arrive", arrived, f"{late}\n{self.relay.tail()}" if late else "")

    def contents(self):
        """What arrived, next to the bytes in the ledger."""
        stored = dict(self.product.rows("SELECT message_id, bytes FROM messages"))
        joined = "FROM messages m JOIN attempts a ON a.message = m.id WHERE a.class = 'sent'"
        ids = dict(self.product.rows(f"SELECT m.message_id, a.relay_id {joined}"))
        name, record = self.product.dkim_record()
        mails = [mail for address in PEOPLE for mail in self.internet.to(address)]
        lines = [json.dumps({"message": base64.b64encode(mail).decode(), "name": name, "record": record}) for mail in mails]
        verdicts = subprocess.run([self.verifier, VERIFIER], input="\n".join(lines), capture_output=True, text=True)
        holds = dict(zip(mails, verdicts.stdout.splitlines()))
        self.check("DKIM is verified", len(holds) == len(mails) == 3 * len(PEOPLE), verdicts.stderr)
        for domain, server in (("new", "a server of today"), ("old", "a server without extensions")):
            for what, words in (("digests", "updates"), ("messages", SHORT), ("messages with a long line", LONG)):
                own = [mail for address in PEOPLE if address.endswith(f"@{domain}.example") for mail in self.internet.to(address)]
                own = [mail for mail in own if words in subject(mail)]
                broken = [head(mail) for mail in own if holds.get(mail) != "holds"]
                if (what, domain) in self.relay.rewrites:
                    self.check(f"{what} to {server} are written anew, as docs/compatibility.md says", len(broken) > 0)
                else:
                    self.check(f"the DKIM signature of {what} to {server} holds", own and not broken, "\n".join(broken))
        bare, changed, unnamed, other = [], [], [], []
        for mail in mails:
            parsed, own = (email.message_from_bytes(content, policy=email.policy.SMTP) for content in (mail, stored.get(message_id(mail), b"")))
            if not all(text(parsed, kind).strip() and text(parsed, kind) == text(own, kind) for kind in ("plain", "html")):
                bare.append(head(mail))
            if not same(parsed, own, "List-Unsubscribe") or not same(parsed, own, "List-Unsubscribe-Post"):
                changed.append(head(mail))
            if own.get("List-Id") and not own.get("List-Unsubscribe"):
                changed.append(head(mail))
            if any(not same(parsed, own, header) for header in ("From", "To", "Subject", "Date", "Message-ID", "List-Id", "Feedback-ID")):
                other.append(head(mail))
            given = ids.get(message_id(mail))
            received = " ".join(parsed.get_all("Received", []))
            if (given is None or given not in received) if self.relay.gives_id else given is not None:
                unnamed.append(f"{given} is not in {received}")
        self.check("text and HTML are there, as they were stored", mails and not bare, "\n".join(bare))
        self.check("List-Unsubscribe and List-Unsubscribe-Post are unchanged", mails and not changed, "\n".join(changed))
        self.check("the other headers are unchanged", mails and not other, "\n".join(other))
        wanted = "the relay's id of each message is found" if self.relay.gives_id else "no id is taken from a relay that gives none"
        replies = self.product.rows("SELECT DISTINCT reply FROM attempts WHERE class = 'sent' LIMIT 3")
        self.check(wanted, mails and not unnamed, "\n".join([str(replies), *unnamed[:3]]))

    def reports(self, address):
        rows = self.product.rows(
            "SELECT coalesce(e.bounce, e.kind) FROM delivery_events e JOIN messages m ON m.id = e.message WHERE m.envelope_to = ?", address
        )
        return [kind for kind, in rows]

    def is_suppressed(self, address):
        return bool(self.product.rows("SELECT 1 FROM suppressions WHERE address_lower = ?", address))

    def returns(self):
        def read():
            self.product.read_bounces(self.internet.maildir)
            return all(self.reports(address) for address in refused)

        refused = [address for address in REFUSED if address.split("@")[0] in self.relay.reports]
        eventually(read, SECONDS)
        for address in refused:
            expected = self.relay.reports[address.split("@")[0]]
            reports = self.reports(address)
            holds = reports and reports[-1] == expected and self.is_suppressed(address) == (expected == "hard")
            detail = f"{reports}, {self.product.story(address)}\n{self.returned(address)}"
            self.check(f"the bounce of {address} is {expected}", holds, detail)

    def returned(self, address):
        """The reports that came back about an address, without the message."""
        found = []
        for folder in ("new", "cur"):
            for path in sorted((self.internet.maildir / folder).iterdir()):
                content = path.read_bytes().decode(errors="replace")
                if address in content:
                    found.append(content[:3000])
        return "\n".join(found) or "nothing came back about it"

    def nobody(self):
        """A user whom the relay itself does not have: refused at RCPT, or returned."""
        where, expected = self.relay.nobody
        if where == "bounce":
            self.check(f"a user whom the relay does not have comes back: {expected}", self.wait_for_report(expected), self.evidence(NEMO))
            return

        def classes():
            statement = "SELECT a.class FROM attempts a JOIN messages m ON m.id = a.message WHERE m.envelope_to = ? AND a.phase = 'rcpt'"
            return self.product.rows(statement, NEMO)

        ended = eventually(lambda: self.product.rows("SELECT 1 FROM messages WHERE envelope_to = ? AND state = 'failed'", NEMO), SECONDS)
        holds = ended and set(classes()) == {(expected,)} and self.is_suppressed(NEMO) == (expected == "hard_bounce")
        self.check(f"a user whom the relay does not have is refused: {expected}", holds, self.evidence(NEMO))

    def wait_for_report(self, expected):
        def read():
            self.product.read_bounces(self.internet.maildir)
            return self.reports(NEMO)

        return eventually(read, SECONDS) and self.reports(NEMO)[-1] == expected and self.is_suppressed(NEMO) == (expected == "hard")

    def evidence(self, address):
        return f"{self.product.story(address)}\n{self.returned(address)}"

    def stranger(self):
        """The relay does not relay for this host."""
        self.waits("a relay that refuses this host", "strange", "stranger", self.relay.stranger_cause)

    def sender(self):
        """The domain of the return path is not in DNS, and the relay looks it up."""
        self.waits(f"a relay that refuses our sender of {MISSING}", "missing", "sender", "configuration")

    def waits(self, what, tenant, relay, cause):
        def opened():
            return self.product.rows("SELECT cause FROM relays WHERE name = ? AND state = 'open'", relay)

        eventually(lambda: opened() == [(cause,)], SECONDS)
        # What a relay has refused without a reason is asked once more after the retry delay.
        time.sleep(5)
        found = self.product.rows("SELECT state, count(*) FROM messages WHERE tenant = ? GROUP BY state", tenant)
        attempts = self.product.rows(
            "SELECT a.class, a.phase, a.reply, count(*) FROM attempts a JOIN messages m ON m.id = a.message WHERE m.tenant = ?"
            " GROUP BY 1, 2, 3", tenant
        )
        detail = f"breaker: {opened()}\nmessages: {found}\nattempts: {attempts}\n{self.product.log('relay_open')}"
        self.check(f"{what} opens its breaker: {cause}", opened() == [(cause,)], detail)
        ended = sum(count for state, count in found if state == "failed")
        most = MOST_ENDED if cause == "refusals" else 0
        self.check(f"{what} ends {most or 'no'} digests{' at most' if most else ''}", ended <= most, detail)
        suppressed = self.product.rows("SELECT address_lower, reason FROM suppressions WHERE tenant = ?", tenant)
        self.check(f"{what} suppresses nobody", not suppressed, suppressed)

    def once(self):
        """Nothing came twice, nothing is on its way for no reason, and no other breaker opened."""
        twice = [address for address in PEOPLE if len(self.internet.to(address)) != 3]
        self.check("each message arrived once", not twice, twice)
        opened = self.product.rows("SELECT name, cause, why FROM relays WHERE state = 'open' AND name = 'welcome'")
        self.check("the breaker of the relay that takes mail stays closed", not opened, opened)
        # A relay may take fewer connections than we open (Courier takes five of one host).
        outages = [line for line in self.product.log("relay_open").splitlines() if 'cause="outage"' in line]
        self.check("no breaker opened for an outage, because there was none", not outages, "\n".join(outages))


def event(tenant, user, number):
    return {
        "tenant": tenant, "user": user, "event_id": f"e{number}", "category": ("comment", "mention", "change")[number % 3],
        "entity_type": "document", "entity_id": f"d{number % 4}", "actor": ("Žofie", "Bob", "李")[number % 3],
        "occurred_at": f"2026-01-31T08:00:{number:02}Z",
        "payload": {"title": f"{'A longer title, ärger, 日本語 ' * 4}{number}", "url": f"https://acme.example/documents/{number}?a=b&c=d"},
    }


def message_id(mail):
    return str(email.message_from_bytes(mail, policy=email.policy.SMTP)["Message-ID"]).strip("<>")


def subject(mail):
    return str(email.message_from_bytes(mail, policy=email.policy.SMTP)["Subject"])


def text(mail, kind):
    part = mail.get_body((kind,)) if mail.keys() else None
    return part.get_content() if part else ""


def same(mail, own, header):
    """Whether a header is the same, wherever its lines are folded."""
    values = [[" ".join(str(value).split()) for value in message.get_all(header, [])] for message in (mail, own)]
    return values[0] == values[1]


def head(mail):
    """Which mail it is."""
    parsed = email.message_from_bytes(mail, policy=email.policy.SMTP)
    return f"{'digest' if parsed['List-Id'] else 'single message'} to {parsed['To']}: {parsed['Subject']} {parsed['Message-ID']}"


def run(name, program, cli, verifier, packages):
    """The number of checks that hold, and those that do not."""
    with tempfile.TemporaryDirectory(prefix="tidings.") as folder:
        folder = pathlib.Path(folder)
        (folder / "tidings").mkdir()
        began = time.monotonic()
        try:
            with (
                Internet(folder / "returned") as internet,
                SERVERS[name](name, packages / name, folder) as relay,
            ):
                print(f"{relay.version()}, started after {time.monotonic() - began:.1f} s", flush=True)
                urls = {"welcome": relay.welcome, "stranger": relay.stranger, "missing": MISSING}
                with Tidings(program, cli, folder / "tidings", **urls) as product:
                    one = Run(name, relay, product, internet, verifier)
                    one.all()
                    return one.passed, one.failed
        except (servers.Failure, tidings.Failure) as failure:
            print(f"    FAILED {name} runs\n           {failure}", flush=True)
            return 0, [f"{name}: it runs: {str(failure).splitlines()[0]}"]


def make_network():
    """Addresses of this machine that no interface has, so that no server takes those of the Internet for its own."""
    socket.sethostname(servers.NAME)
    servers.call("ip", "link", "set", "lo", "up")
    servers.call("ip", "route", "add", "local", ADDRESSES, "dev", "lo")
    # libasr (OpenSMTPD) asks for no address of a family in which the machine has only 127.0.0.1.
    servers.call("ip", "address", "add", "192.0.2.1/32", "dev", "lo")


def main(program, cli, verifier, packages, *names):
    make_network()
    passed, failed = 0, []
    for name in names or SERVERS:
        print(name, flush=True)
        held, broken = run(name, program, cli, verifier, pathlib.Path(packages).resolve())
        passed, failed = passed + held, failed + broken
    for what in failed:
        print(f"FAILED {what}")
    print(f"{passed + len(failed)} checks of {len(names or SERVERS)} servers: {passed} hold, {len(failed)} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    if len(sys.argv) < 5 or not set(sys.argv[5:]) <= set(SERVERS):
        sys.exit(__doc__)
    main(*(str(pathlib.Path(path).absolute()) for path in sys.argv[1:5]), *sys.argv[5:])
