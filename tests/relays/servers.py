"""Mail servers of Debian as relays, each in a root of its own: the packages on top of the system, which nothing changes.

They listen on 127.0.0.1, for which they relay, and on an address from which they do not. Their configuration is Debian's, but for names and
addresses, and for a queue that gives up after seconds.
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

from internet import DNS, RELAY

UP_SECONDS = 30
NAME = "relay.example"
# The address of this host, which is neither of those that the servers listen on.
HOST = "192.0.2.1"
HOSTS = f"127.0.0.1 localhost\n{HOST} {NAME} relay\n{RELAY} stranger.example\n"


class Failure(Exception):
    """A server cannot be started."""


class Server:
    """A mail server, which ends with the block."""

    users = ()
    # The addresses of the relay for the worker: where it is welcome, and where it is a stranger.
    welcome, stranger = "smtp://127.0.0.1:25", f"smtp://{RELAY}:25?tls=none"

    # What becomes of mail to remote recipients that their servers refuse, by local part: the class of the bounce (docs/delivery.md).
    reports = {"unknown": "hard", "policy": "policy", "plain": "soft", "full": "soft"}
    # A user whom the relay does not have: `rcpt` with the class of the attempt, or `bounce` with the class of the bounce.
    nobody = ("rcpt", "hard_bounce")
    # Why the breaker of a relay opens that does not relay for us.
    stranger_cause = "configuration"
    # Whether its answer to DATA has its id of the message, and whether it refuses a sender whose domain DNS does not have.
    gives_id, looks_up_sender = True, False
    # What it writes anew, to servers of today (`new`) or without extensions (`old`), so that no signature holds.
    rewrites = frozenset()

    def __init__(self, name, packages, folder):
        self.name, self.packages, self.folder = name, pathlib.Path(packages), pathlib.Path(folder)
        self.root, self.log = self.folder / "root", self.folder / "server.log"
        self.process = self.syslog = None

    def __enter__(self):
        self.make_root()
        try:
            self.configure()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process:
            # The first process of the namespace, with which all others end. `--kill-child` does not reach one that has changed its user.
            children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
            with contextlib.suppress(OSError):
                for child in children.read_text().split():
                    os.kill(int(child), signal.SIGKILL)
            self.process.wait()
        if self.syslog:
            self.syslog.close()
        call("umount", "--recursive", "--lazy", self.root)

    # --- for each server ---

    def configure(self):
        """Writes what the package's installation would ask for."""

    def command(self):
        """The server in the foreground, as one line of sh."""
        raise NotImplementedError

    def version(self):
        raise NotImplementedError

    # --- the root ---

    def make_root(self):
        """Puts the packages on top of /usr and /etc. Everything that the server writes is in memory."""
        self.root.mkdir()
        mount("-t", "tmpfs", "relay", self.root)
        for name in ("usr", "etc", "var", "tmp", "run", "dev", "proc", "root"):
            (self.root / name).mkdir()
        (self.root / "tmp").chmod(0o1777)
        for link in ("bin", "sbin", "lib", "lib64"):
            (self.root / link).symlink_to(f"usr/{link}")
        for name in ("usr", "etc"):
            above, work = self.root / f".{name}", self.root / f".{name}.work"
            above.mkdir()
            work.mkdir()
            layers = f"lowerdir={self.packages}/{name}:/{name},upperdir={above},workdir={work}"
            mount("-t", "overlay", name, "-o", layers, self.root / name)
        mount("-t", "proc", "proc", self.root / "proc")
        if (self.packages / "var").exists():
            call("cp", "-a", f"{self.packages}/var", self.root)
        for name in ("log", "spool", "lib", "mail", "tmp"):
            (self.root / "var" / name).mkdir(exist_ok=True)
        (self.root / "var/run").symlink_to("/run")
        for name in ("null", "zero", "random", "urandom", "tty"):
            (self.root / "dev" / name).touch()
            mount("--bind", f"/dev/{name}", self.root / "dev" / name)
        self.write("etc/resolv.conf", f"nameserver {DNS}\n")
        self.write("etc/hosts", HOSTS)
        self.write("etc/hostname", f"{NAME}\n")
        self.write("etc/mailname", f"{NAME}\n")
        self.write("etc/aliases", "postmaster: root\n")
        self.add_users()
        self.listen_to_syslog()

    def add_users(self):
        """Each user gets a group of the same name, as the packages do."""
        for number, user in enumerate(self.users, 64000):
            if not re.search(f"(?m)^{user}:", (self.root / "etc/passwd").read_text()):
                self.write("etc/passwd", f"{user}:x:{number}:{number}::/nonexistent:/usr/sbin/nologin\n", "a")
            if not re.search(f"(?m)^{user}:", (self.root / "etc/group").read_text()):
                self.write("etc/group", f"{user}:x:{number}:\n", "a")

    def listen_to_syslog(self):
        self.syslog = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.syslog.bind(str(self.root / "dev/log"))
        (self.root / "dev/log").chmod(0o666)

        def listen():
            with contextlib.suppress(OSError), self.log.open("ab") as log:
                while line := self.syslog.recv(65536):
                    log.write(line.rstrip(b"\n\0") + b"\n")
                    log.flush()

        threading.Thread(target=listen, daemon=True).start()

    def write(self, path, text, mode="w"):
        """Writes a new file: /etc has links that lead out of the root."""
        path = self.root / path
        if mode == "w":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
        with path.open(mode) as file:
            file.write(text)

    def edit(self, path, pattern, text):
        """Replaces what a configuration of the package must have."""
        edited, count = re.subn(pattern, text, (self.root / path).read_text(), flags=re.MULTILINE)
        if not count:
            raise Failure(f"{self.name}: {path} has nothing like {pattern}")
        self.write(path, edited)

    def run(self, command):
        """Runs a command in the root and returns its output."""
        done = subprocess.run(["chroot", self.root, "sh", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise Failure(f"{self.name}: {command}: exit code {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    # --- the process ---

    def start(self):
        """In a namespace of processes, so that all of them end with the first one."""
        if greets("127.0.0.1"):
            raise Failure(f"{self.name}: another server has its port")
        alone = ["unshare", "--pid", "--fork", "--kill-child", f"--mount-proc={self.root}/proc"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*alone, "chroot", self.root, "sh", "-c", self.command()], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )
        deadline = time.monotonic() + UP_SECONDS
        while not all(greets(address) for address in ("127.0.0.1", RELAY)):
            if self.process.poll() is not None:
                raise Failure(f"{self.name} ended with {self.process.returncode} at its start; the end of its log:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise Failure(f"{self.name} does not answer after {UP_SECONDS} s; the end of its log:\n{self.tail()}")
            time.sleep(0.1)

    def logged(self):
        logs = [self.log, *(path for path in (self.root / "var/log").rglob("*") if path.is_file() and path.suffix != ".journal")]
        return "\n".join(path.read_text(errors="replace") for path in logs)

    def tail(self):
        return "\n".join(line[:300] for line in self.logged().splitlines()[-25:])


class Exim(Server):
    users = ("Debian-exim",)
    # Without words in its report.
    nobody = ("bounce", "soft")

    def configure(self):
        for name in ("var/spool/exim4", "var/log/exim4", "run/exim4", "var/lib/exim4"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        self.run("chown Debian-exim:Debian-exim /var/spool/exim4 /var/log/exim4 /run/exim4")
        self.write(
            "etc/exim4/update-exim4.conf.conf",
            f"dc_eximconfig_configtype='internet'\ndc_other_hostnames='{NAME}'\ndc_local_interfaces='127.0.0.1 ; {RELAY}'\n"
            "dc_readhost=''\ndc_relay_domains=''\ndc_minimaldns='false'\ndc_relay_nets=''\ndc_smarthost=''\nCFILEMODE='644'\n"
            "dc_use_split_config='false'\ndc_hide_mailname=''\ndc_mailname_in_oh='true'\ndc_localdelivery='mail_spool'\n",
        )
        self.edit("etc/exim4/exim4.conf.template", r"^\*\s+\*\s+F,2h,15m;.*$", "* * F,2s,1s")
        self.run("update-exim4.conf --keepcomments")

    def command(self):
        return "exec exim4 -bdf -q2s -oX 25"

    def version(self):
        return self.run("exim4 -bV").splitlines()[0]


class OpenSmtpd(Server):
    users = ("opensmtpd", "opensmtpq")
    # Its report has Status 5.0.0 and no reply, and that of an expired message is a delay.
    reports = {"unknown": "soft", "policy": "soft", "plain": "soft", "full": "deferred"}
    # `550 Invalid recipient`, for both.
    nobody, stranger_cause = ("rcpt", "refused"), "refusals"

    def configure(self):
        self.run("mkdir -p /var/spool/smtpd /var/lib/opensmtpd/empty && chmod 711 /var/spool/smtpd")
        self.write(
            "etc/smtpd.conf",
            f'table aliases file:/etc/aliases\nqueue ttl 5s\nlisten on 127.0.0.1\nlisten on {RELAY}\naction "local" maildir alias <aliases>\n'
            f'action "relay" relay\nmatch from any for domain "{NAME}" action "local"\nmatch from local for any action "relay"\n',
        )

    def command(self):
        return "exec smtpd -d"

    def version(self):
        return "OpenSMTPD " + self.run("smtpd -h 2>&1 || true").splitlines()[0].split()[-1]


class Postfix(Server):
    users = ("postfix", "postdrop")

    def configure(self):
        shutil.copy(self.root / "usr/share/postfix/main.cf.debian", self.root / "etc/postfix/main.cf")
        shutil.copy(self.root / "usr/share/postfix/master.cf.dist", self.root / "etc/postfix/master.cf")
        self.write(
            "etc/postfix/main.cf",
            f"myhostname = {NAME}\nmydestination = {NAME}\nmynetworks = 127.0.0.0/8\ninet_interfaces = 127.0.0.1\n"
            "inet_protocols = ipv4\nalias_maps =\nalias_database =\nrecipient_delimiter = +\nmaillog_file = /var/log/mail.log\n"
            "smtpd_relay_restrictions = permit_mynetworks permit_sasl_authenticated defer_unauth_destination\n"
            "maximal_queue_lifetime = 4s\nqueue_run_delay = 1s\nminimal_backoff_time = 1s\nmaximal_backoff_time = 2s\n",
            "a",
        )
        self.run("chown postfix:postfix /var/lib/postfix")
        # No interface has the address at which it does not know us.
        self.run(f"postconf -M {RELAY}:smtp/inet='{RELAY}:smtp inet n - n - - smtpd'; postconf -F '*/*/chroot=n'")

    def command(self):
        return "exec postfix start-fg"

    def version(self):
        return f"Postfix {self.run('postconf -h mail_version').strip()}"


class Sendmail(Server):
    users = ("smmta", "smmsp")

    def configure(self):
        shutil.copy(self.root / "usr/share/sendmail/cf/debian/sendmail.mc", self.root / "etc/mail/sendmail.mc")
        self.edit(
            "etc/mail/sendmail.mc",
            "^MAILER_DEFINITIONS$",
            f"DAEMON_OPTIONS(`Family=inet, Name=MTA-far, Port=smtp, Addr={RELAY}')dnl\n"
            "define(`confTO_QUEUERETURN', `4s')dnl\ndefine(`confMIN_QUEUE_AGE', `0')dnl\nMAILER_DEFINITIONS",
        )
        for name in ("m4/dialup.m4", "m4/provider.m4", "access", "local-host-names"):
            self.write(f"etc/mail/{name}", "")
        self.write("etc/mail/aliases", "postmaster: root\n")
        self.run(
            "mkdir -p /run/sendmail/mta /var/lib/sendmail/host_status && cd /etc/mail && m4 sendmail.mc >sendmail.cf && makemap hash access <access"
            " && /usr/libexec/sendmail/sendmail -bi"
        )

    def command(self):
        return "exec /usr/libexec/sendmail/sendmail -bD -q2s"

    def version(self):
        return f"sendmail {self.run('/usr/libexec/sendmail/sendmail -d0.1 -bv root || true').split()[1]}"


class Chasquid(Server):
    """It takes mail to relay on the port of submission, after a login."""

    users = ("chasquid",)
    # It gives a message up after 20 hours, and no setting changes this.
    reports = {"unknown": "hard", "policy": "policy", "plain": "soft"}
    gives_id = False

    def configure(self):
        self.write(
            "etc/chasquid/chasquid.conf",
            f'hostname: "{NAME}"\nsmtp_address: "127.0.0.1:25"\nsmtp_address: "{RELAY}:25"\nsubmission_address: "127.0.0.1:587"\n'
            'mail_log_path: "<stderr>"\n',
        )
        (self.root / "etc/chasquid/domains" / NAME).mkdir()
        (self.root / "etc/chasquid/certs" / NAME).mkdir()
        self.run(
            "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=relay -addext subjectAltName=IP:127.0.0.1"
            f" -addext basicConstraints=critical,CA:FALSE -keyout /etc/chasquid/certs/{NAME}/privkey.pem"
            f" -out /etc/chasquid/certs/{NAME}/fullchain.pem 2>/dev/null && chasquid-util user-add tidings@{NAME} --password=secret"
        )
        shutil.copy(self.root / f"etc/chasquid/certs/{NAME}/fullchain.pem", self.folder / "relay.pem")
        self.welcome = f"smtp://tidings%40{NAME}:secret@127.0.0.1:587?tls=required&ca={self.folder}/relay.pem"

    def command(self):
        return "exec chasquid -logfile /var/log/chasquid.log"

    def version(self):
        return self.run("chasquid --version").strip()


class Courier(Server):
    users = ("courier",)
    # `550 User <nemo> unknown`.
    nobody = ("rcpt", "unknown_mailbox")
    looks_up_sender = True
    rewrites = frozenset({("digests", "old")} | {(what, domain) for what in ("messages", "messages with a long line") for domain in ("new", "old")})

    def configure(self):
        for name, text in {
            "me": NAME, "defaultdomain": NAME, "locals": f"localhost\n{NAME}", "esmtpacceptmailfor": NAME,
            "dsnfrom": f"postmaster@{NAME}",
            "queuetime": "4s", "retryalpha": "1s", "retrybeta": "1", "retrygamma": "1s", "retrymaxdelta": "1",
        }.items():
            self.write(f"etc/courier/{name}", f"{text}\n")
        self.edit("etc/courier/esmtpd", "^PORT=.*$", f"PORT=127.0.0.1.25,{RELAY}.25")
        # The owners are those of the package's installation.
        self.run(
            "mkdir -p /run/courier/authdaemon && cd /var/lib/courier && chown -R courier:courier . /run/courier && chmod 770 tmp"
            " && chown -R root:courier /etc/courier && cd /usr/lib/courier/courier && chown courier:courier submitmkdir"
            " && chmod 4755 submitmkdir && ln -s makedat.courier /usr/bin/makedat && ln -s lockmail.courier /usr/bin/lockmail"
            " && makealiases && makesmtpaccess && makeacceptmailfor && makehosteddomains"
        )

    def command(self):
        return "authdaemond start && courier start && esmtpd start && exec sleep infinity"

    def version(self):
        return self.run("courier --version").splitlines()[0]


# In the order of the run.
SERVERS = {
    "exim": Exim,
    "opensmtpd": OpenSmtpd,
    "postfix": Postfix,
    "sendmail": Sendmail,
    "chasquid": Chasquid,
    "courier": Courier,
}


def greets(address):
    try:
        with socket.create_connection((address, 25), timeout=5) as connection:
            return connection.recv(4) == b"220 "
    except OSError:
        return False


def call(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"{' '.join(map(str, command))}: {done.stderr.strip()}")


def mount(*arguments):
    call("mount", *arguments)
