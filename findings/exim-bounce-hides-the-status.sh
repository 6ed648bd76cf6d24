#!/usr/bin/env bash
# Exim 4.96 (Debian's 4.96-15+deb12u11): the Status in its bounces, when the next server said why.
#
# Expected: the code of the reply: 5.1.1 for "550 5.1.1", 5.7.1 for "550 5.7.1", and 4.2.2 for "452 4.2.2" until the retries ended. By
# RFC 3463 3.1 X.0.0 is for errors of which only the class is known, and by its section 2 class 4 is also for a temporary condition that
# lasted until the message was given up. RFC 3464 2.3.4 takes these codes over into Status.
# Seen: 5.0.0 three times. The reply stands below it, in Diagnostic-Code.
#
# So whoever reads bounces by their Status cannot tell a mailbox that is gone from a blocklist or a full mailbox behind Exim.
# Needs Debian 12 with its package lists. Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download exim4-daemon-light=4.96-15+deb12u11 \
    libnss-wrapper libidn12 libgnutls-dane0 libunbound8 libdb5.3 libnsl2
for package in ./*.deb; do dpkg -x "$package" tree; done
chmod u-s tree/usr/sbin/exim4
python3 - <<'PY'
import os, re, socketserver, subprocess, sys, threading, time

folder, user = os.getcwd(), os.getuid() or 65534
REPLIES = {b"full": b"452 4.2.2 mailbox is full", b"gone": b"550 5.1.1 no such user", b"policy": b"550 5.7.1 rejected by policy"}
bounces = []


class Server(socketserver.StreamRequestHandler):
    """The next server, and the mailbox of the bounces."""

    def handle(self):
        self.wfile.write(b"220 next.example ESMTP\r\n")
        for line in self.rfile:
            reply = next((reply for name, reply in REPLIES.items() if line.startswith(b"RCPT TO:<" + name)), b"250 2.0.0 Ok")
            if line.startswith(b"EHLO"):
                reply = b"250-next.example\r\n250 ENHANCEDSTATUSCODES"
            if line.startswith(b"DATA"):
                self.wfile.write(b"354 Go ahead\r\n")
                bounces.append(b"".join(iter(self.rfile.readline, b".\r\n")).decode())
            self.wfile.write(reply + b"\r\n")


server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
open("passwd", "w").write(f"root:x:0:0::/:/bin/sh\nDebian-exim:x:{user}:{user}::/:/bin/sh\n")
open("group", "w").write(f"root:x:0:\nDebian-exim:x:{user}:\n")
open("exim.conf", "w").write(f"""
exim_path = {folder}/tree/usr/sbin/exim4
spool_directory = {folder}/spool
log_file_path = {folder}/spool/%slog
primary_hostname = relay.example
keep_environment = LD_LIBRARY_PATH : LD_PRELOAD : NSS_WRAPPER_PASSWD : NSS_WRAPPER_GROUP
begin routers
all:
  driver = manualroute
  route_list = * 127.0.0.1
  self = send
  transport = next
begin transports
next:
  driver = smtp
  port = {server.server_address[1]}
begin retry
* * F,1s,1s
""")
os.mkdir("spool")
os.chown("spool", user, user)
library = f"{folder}/tree/usr/lib/x86_64-linux-gnu"
environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": library, "LD_PRELOAD": f"{library}/libnss_wrapper.so",
               "NSS_WRAPPER_PASSWD": f"{folder}/passwd", "NSS_WRAPPER_GROUP": f"{folder}/group"}
another = {} if os.getuid() else {"user": user, "group": user, "extra_groups": []}


def exim(*arguments):
    command = ["tree/usr/sbin/exim4", "-C", f"{folder}/exim.conf", *arguments]
    return subprocess.run(command, env=environment, input=b"Subject: digest\n\nHello\n", check=True, capture_output=True, **another).stdout.decode()


version = re.search(r"Exim version (\S+)", exim("-bV"))[1]
for name in REPLIES:
    exim("-odf", "-oi", "-f", "sender@news.example", f"{name.decode()}@next.example")
deadline = time.monotonic() + 30
while len(bounces) < len(REPLIES) and time.monotonic() < deadline:
    time.sleep(2)
    exim("-qff")
fields = [[re.search(rf"^{field}: (.*?)\r?$", bounce, re.M)[1] for field in ("Status", "Diagnostic-Code")] for bounce in bounces]
print(f"version {version}", *(f"Status: {status} | Diagnostic-Code: {reply}" for status, reply in sorted(fields)), sep="\n")
replies = [f"smtp; {reply.decode()}" for reply in REPLIES.values()]
replies[0] += ": retry timeout exceeded"
sys.exit((version, sorted(fields)) != ("4.96", [["5.0.0", reply] for reply in replies]))
PY
