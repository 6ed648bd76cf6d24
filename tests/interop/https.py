"""Sends requests over TLS and prints the answers.

usage: https.py CA_FILE HOST PORT < requests

A request is a line of JSON: `from` (the client's address), `method`, `path`, `headers`, and `body` or `chunks`. Each goes to PORT
of this machine on a connection of its own, for the name HOST. An answer is a line of JSON with `status`, `headers` and `body`.
"""

import http.client
import json
import socket
import ssl
import sys


class Connection(http.client.HTTPConnection):
    """Connects to this machine and checks the certificate for another name."""

    def __init__(self, host, port, context, source):
        super().__init__(host, port, timeout=20)
        self.context, self.source = context, source

    def connect(self):
        plain = socket.create_connection(("127.0.0.1", self.port), self.timeout, (self.source, 0))
        self.sock = self.context.wrap_socket(plain, server_hostname=self.host)


def main():
    ca_file, host, port = sys.argv[1:]
    context = ssl.create_default_context(cafile=ca_file)
    for line in sys.stdin:
        request = json.loads(line)
        connection = Connection(host, int(port), context, request["from"])
        body = request.get("body", "").encode()
        chunks = request.get("chunks")
        if chunks is not None:
            body = (chunk.encode() for chunk in chunks)
        connection.connect()
        try:
            connection.request(
                request["method"], request["path"], body or None, request.get("headers", {}), encode_chunked=True
            )
        except OSError:
            pass  # The server answers before it has read everything.
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        text = answer.read().decode()
        print(json.dumps({"status": answer.status, "headers": headers, "body": text}), flush=True)
        connection.close()


main()
