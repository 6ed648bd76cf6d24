"""The Internet of a network namespace that has nothing else: DNS, and mail servers for every domain of `.example`."""

import itertools
import pathlib
import socket
import socketserver
import struct
import threading
from typing import NamedTuple

ADDRESSES = "198.51.100.0/24"
DNS = "198.51.100.53"
# The relay's address for hosts that it does not know. A connection to it comes from there, too.
RELAY = "198.51.100.10"
# Mail servers with today's extensions and with those of 1995.
NEW, OLD = "198.51.100.25", "198.51.100.26"
EXTENSIONS = {NEW: ["8BITMIME", "ENHANCEDSTATUSCODES", "PIPELINING"], OLD: []}
# What the mail servers reply to RCPT, by the local part of the recipient.
REFUSALS = {
    "unknown": "550 5.1.1 no such user here",
    "policy": "550 5.7.1 rejected by policy",
    "plain": "550 administrative prohibition",
    "full": "452 4.2.2 mailbox full",
}
# A domain that DNS does not have. Every other one below `.example` exists.
MISSING = "missing.example"


class Mail(NamedTuple):
    """A message that the Internet took."""

    recipients: list
    content: bytes


class Internet:
    """DNS and mail servers, which end with the block. Messages to the return path go to a Maildir."""

    def __init__(self, maildir):
        self.mails, self.maildir, self.numbers = [], pathlib.Path(maildir), itertools.count()
        for name in ("new", "cur", "tmp"):
            (self.maildir / name).mkdir(parents=True)
        self.servers = [MailServer((address, 25), self) for address in (NEW, OLD)]
        self.servers.append(socketserver.ThreadingUDPServer((DNS, 53), Question))

    def __enter__(self):
        for server in self.servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def take(self, sender, recipients, content):
        self.mails.append(Mail(recipients, content))
        for recipient in recipients:
            if recipient.startswith("bounce+"):
                name = f"{next(self.numbers):06}"
                head = f"Return-Path: <{sender}>\r\nDelivered-To: {recipient}\r\n"
                (self.maildir / "tmp" / name).write_bytes(head.encode() + content)
                (self.maildir / "tmp" / name).rename(self.maildir / "new" / name)

    def to(self, recipient):
        return [mail.content for mail in self.mails if recipient in mail.recipients]


class MailServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 50

    def __init__(self, address, internet):
        super().__init__(address, Session)
        self.internet = internet


class Session(socketserver.StreamRequestHandler):
    def reply(self, line):
        self.wfile.write(line.encode() + b"\r\n")

    def handle(self):
        try:
            self.talk()
        except ConnectionError:
            pass  # A server that was stopped.

    def talk(self):
        sender, recipients = "", []
        self.reply("220 mx.example ESMTP")
        for line in self.rfile:
            verb = line.split()[0].upper() if line.split() else b""
            address = line.split(b"<")[-1].split(b">")[0].decode()
            if verb == b"EHLO":
                lines = ["mx.example", *EXTENSIONS[self.server.server_address[0]]]
                for place, extension in enumerate(lines):
                    self.reply(f"250{' ' if place == len(lines) - 1 else '-'}{extension}")
                continue
            if verb == b"MAIL":
                sender, recipients = address, []
            if verb == b"RCPT":
                refusal = REFUSALS.get(address.split("@")[0])
                if refusal:
                    self.reply(refusal)
                    continue
                recipients.append(address)
            if verb == b"DATA" and not recipients:
                self.reply("503 no recipient")
                continue
            if verb == b"DATA":
                self.reply("354 go on")
                content = self.content()
                if content is None:
                    return
                self.server.internet.take(sender, recipients, content)
                recipients = []
            self.reply("221 bye" if verb == b"QUIT" else "250 ok")

    def content(self):
        """The message without its dots. None: the connection ended before the last one."""
        lines = []
        for line in self.rfile:
            if line == b".\r\n":
                return b"".join(lines)
            lines.append(line.removeprefix(b"."))
        return None


A, MX, IN = 1, 15, 1


class Question(socketserver.BaseRequestHandler):
    """A question over UDP (RFC 1035), with its answer."""

    def handle(self):
        packet, connection = self.request
        labels, at = [], 12
        while packet[at]:
            labels.append(packet[at + 1 : at + 1 + packet[at]].decode(errors="replace").lower())
            at += 1 + packet[at]
        question = packet[12 : at + 5]
        (kind,) = struct.unpack("!H", packet[at + 1 : at + 3])
        exists, data = answer(".".join(labels), kind)
        # An answer that is authoritative, with or without NXDOMAIN.
        head = struct.pack("!HHHHHH", struct.unpack("!H", packet[:2])[0], 0x8580 | (0 if exists else 3), 1, len(data), 0, 0)
        records = b"".join(struct.pack("!HHHIH", 0xC00C, kind, IN, 60, len(one)) + one for one in data)
        connection.sendto(head + question + records, self.client_address)


def answer(name, kind):
    """Whether the name exists, and the data of its records of this kind."""
    if not name.endswith(".example") or name.endswith(MISSING):
        return False, []
    if kind == A:
        return True, [socket.inet_aton(RELAY if name == "relay.example" else OLD if name.endswith("old.example") else NEW)]
    if kind == MX and not name.startswith("mx."):
        # The name of the question stands at byte 12.
        return True, [struct.pack("!H", 10) + b"\x02mx\xc0\x0c"]
    return True, []
