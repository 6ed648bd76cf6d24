#!/usr/bin/env bash
# sendmail 8.17.1.9 (Debian's 8.17.1.9-2+deb12u2): the Status in its bounces, by what the next server said to EHLO.
#
# Expected: "550 5.7.1 rejected by policy" is 5.7.1 in Status, or 5.0.0 if the text is not trusted, because the server did not offer
# ENHANCEDSTATUSCODES (RFC 2034). By RFC 3463 3.2 5.1.1 is for a mailbox that does not exist, and by 3.1 X.0.0 for an unknown detail.
# Seen: with the extension 5.7.1 and 5.2.1. Without it both are 5.1.1, above a Diagnostic-Code with the server's own 5.7.1 and 5.2.1.
#
# So behind sendmail a day on a blocklist looks as if all mailboxes at such servers were gone, and whoever suppresses by Status loses
# them all. The reply has to be believed before the Status.
# Needs Debian 12 with its package lists. Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download sendmail-bin=8.17.1.9-2+deb12u2 \
    libnss-wrapper libwrap0 libsasl2-2 libldap-2.5-0 liblockfile1 libnsl2 libdb5.3
for package in ./*.deb; do dpkg -x "$package" tree; done
chmod ug-s tree/usr/libexec/sendmail/sendmail
python3 - <<'PY'
import os, re, socketserver, subprocess, sys, threading

folder, user = os.getcwd(), os.getuid() or 65534
REPLIES = {b"disabled": b"550 5.2.1 account disabled", b"policy": b"550 5.7.1 rejected by policy"}
bounces, extensions = [], b""


class Server(socketserver.StreamRequestHandler):
    """The next server, and the mailbox of the bounces."""

    def handle(self):
        self.wfile.write(b"220 next.example ESMTP\r\n")
        for line in self.rfile:
            reply = next((reply for name, reply in REPLIES.items() if line.startswith(b"RCPT To:<" + name)), b"250 2.0.0 Ok")
            if line.startswith(b"EHLO"):
                reply = b"250-next.example\r\n250 " + extensions
            if line.startswith(b"DATA"):
                self.wfile.write(b"354 Go ahead\r\n")
                bounces.append(b"".join(iter(self.rfile.readline, b".\r\n")).decode())
            self.wfile.write(reply + b"\r\n")


server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
open("passwd", "w").write(f"root:x:0:0::/:/bin/sh\nnobody:x:{user}:{user}::/:/bin/sh\n")
open("group", "w").write(f"root:x:0:\nnogroup:x:{user}:\n")
open("hosts", "w").write(f"127.0.0.1 relay.example {os.uname().nodename}\n")
open("switch", "w").write("hosts files\npasswd files\naliases files\n")
next_server = f"P=[IPC], S=10, R=20, E=\\r\\n, T=DNS/RFC822/SMTP, A=TCP $h {server.server_address[1]}"
open("sendmail.cf", "w").write(f"""V10/Berkeley
Djrelay.example
O QueueDirectory={folder}/queue
O ServiceSwitchFile={folder}/switch
O HostsFile={folder}/hosts
O DontBlameSendmail=groupwritabledirpathsafe
Pnormal=0
Tnobody
Mlocal, F=lmDFMuX, {next_server}
Mprog, P=/bin/false, F=l, A=false
Mesmtp, F=mDFMuXa, {next_server}
S0
R$*	$#esmtp $@ [127.0.0.1] $: $1
S3
R$*<$*>$*	$2
""")
os.mkdir("queue", 0o700)
os.chown("queue", user, user)
library = f"{folder}/tree/usr/lib/x86_64-linux-gnu"
environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": library, "LD_PRELOAD": f"{library}/libnss_wrapper.so",
               "NSS_WRAPPER_PASSWD": "passwd", "NSS_WRAPPER_GROUP": "group", "NSS_WRAPPER_HOSTS": "hosts"}
environment |= {name: f"{folder}/{file}" for name, file in environment.items() if name.startswith("NSS")}
another = {} if os.getuid() else {"user": user, "group": user, "extra_groups": []}


def sendmail(*arguments):
    command = ["tree/usr/libexec/sendmail/sendmail", "-C", f"{folder}/sendmail.cf", *arguments]
    return subprocess.run(command, env=environment, input=b"Subject: digest\n\nHello\n", capture_output=True, **another).stdout.decode()


seen = [re.search(r"Version (\S+)", sendmail("-bv", "-d0.1", "postmaster"))[1]]
for extensions in (b"ENHANCEDSTATUSCODES", b"PIPELINING"):
    for name in REPLIES:
        sendmail("-odi", "-oi", "-f", "sender@news.example", f"{name.decode()}@next.example")
        status, reply = re.search(r"^Status: (.*?)\r\n(?:.*\r\n)*?Diagnostic-Code: (.*?)\r$", bounces.pop(), re.M).groups()
        seen.append((extensions.decode(), status, reply))
print(f"version {seen[0]}", *("EHLO {}: Status {}, Diagnostic-Code {}".format(*line) for line in seen[1:]), sep="\n")
disabled, policy = (f"SMTP; {reply.decode()}" for reply in REPLIES.values())
sys.exit(seen != ["8.17.1.9", ("ENHANCEDSTATUSCODES", "5.2.1", disabled), ("ENHANCEDSTATUSCODES", "5.7.1", policy),
                  ("PIPELINING", "5.1.1", disabled), ("PIPELINING", "5.1.1", policy)])
PY
