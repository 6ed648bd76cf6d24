"""Mail programs that show a Maildir by threads, each from the unpacked packages of Debian.

`threads` answers with sets of Message-IDs: one for each thread.
"""

import json
import os
import pathlib
import re
import subprocess

DOVECOT = """
mail_location = maildir:{maildir}
mail_uid = {user}
mail_gid = {user}
ssl = no
base_dir = {folder}
log_path = {folder}/dovecot.log
"""
# Dovecot's programs have their paths compiled in, and refuse to be root: the packages lie on top of the system, in a namespace of their own.
IN_A_NAMESPACE = """
set -e
mount -t overlay overlay -o "lowerdir=$1/usr:/usr" /usr
export LD_LIBRARY_PATH=/usr/lib/dovecot
exec unshare --user --map-user={user} --map-group={user} /usr/lib/dovecot/imap -c "$2"
"""
# A user that exists nowhere else: Debian's first one of a person.
USER = 1000


class Failure(Exception):
    """A program cannot read the Maildir."""


def call(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, **options)
    if done.returncode:
        raise Failure(f"{command[0]}: exit code {done.returncode}: {done.stderr or done.stdout}")
    return done.stdout


class Program:
    def __init__(self, packages, folder, maildir):
        self.packages, self.folder, self.maildir = pathlib.Path(packages), folder, maildir
        libraries = ":".join(map(str, self.packages.glob("usr/lib/*-linux-gnu")))
        self.environment = {**os.environ, "HOME": str(folder), "USER": "ann", "LD_LIBRARY_PATH": libraries}

    def run(self, program, *arguments, **options):
        return call(str(self.packages / "usr/bin" / program), *map(str, arguments), env=self.environment, **options)


class Notmuch(Program):
    def threads(self):
        config = self.folder / "notmuch.conf"
        config.write_text(f"[database]\npath={self.maildir}\n[user]\nprimary_email=ann@example.test\n")
        self.run("notmuch", "--config", config, "new")
        found = json.loads(self.run("notmuch", "--config", config, "search", "--format=json", "*"))
        # Of each thread: what matches, and nothing else, as queries.
        return [set(re.findall(r"id:(\S+)", thread["query"][0])) for thread in found]


class Mu(Program):
    def threads(self):
        home = self.folder / "mu"
        self.run("mu", "init", f"--muhome={home}", f"--maildir={self.maildir}")
        self.run("mu", "index", f"--muhome={home}")
        threads = []
        for line in self.run("mu", "find", f"--muhome={home}", "--threads", "--fields", "i", "").splitlines():
            *branch, message = line.split()
            threads += [set()] if not branch else []
            threads[-1].add(message)
        return threads


class Dovecot(Program):
    """By THREAD=REFS. THREAD=REFERENCES also joins what has equal subjects, as RFC 5256 wants it: see `by_subject`."""

    def threads(self):
        return self.ask("REFS")

    def by_subject(self):
        return self.ask("REFERENCES")

    def ask(self, algorithm):
        config = self.folder / "dovecot.conf"
        config.write_text(DOVECOT.format(maildir=self.maildir, folder=self.folder, user=USER))
        script = IN_A_NAMESPACE.format(user=USER)
        dialogue = f"a SELECT INBOX\r\nb THREAD {algorithm} UTF-8 ALL\r\nc FETCH 1:* BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)]\r\nd LOGOUT\r\n"
        answer = call(
            "unshare", "--mount", "--map-root-user", "sh", "-c", script, "sh", str(self.packages), str(config), input=dialogue,
            env={**self.environment, "LD_LIBRARY_PATH": ""},
        )
        ids = dict(re.findall(r"\* (\d+) FETCH [^<]*<([^>]*)>", answer))
        return [{ids[number] for number in re.findall(r"\d+", thread)} for thread in outermost(re.search(r"\* THREAD (.*)", answer)[1])]


def outermost(text):
    """The outermost pairs of parentheses."""
    depth, begin, found = 0, 0, []
    for place, character in enumerate(text):
        if character == "(":
            begin = place if depth == 0 else begin
            depth += 1
        if character == ")":
            depth -= 1
            found += [text[begin : place + 1]] if depth == 0 else []
    return found


PROGRAMS = {"notmuch": Notmuch, "mu": Mu, "dovecot": Dovecot}
