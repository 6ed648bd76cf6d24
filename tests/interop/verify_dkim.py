"""Says of each mail whether its DKIM signature holds, by a verifier that shares no code with Tidings.

usage: verify_dkim.py < LINES    (needs dkimpy and PyNaCl)

Each line is JSON: `message` in base64, and `name` and `record`, the one TXT record that there is in DNS. For each line
it prints `holds` or `does not hold`.
"""

import base64
import json
import sys

import dkim


def holds(line):
    def txt(name, timeout=5):
        return line["record"].encode() if name.decode() == line["name"] + "." else None

    return dkim.verify(base64.b64decode(line["message"]), dnsfunc=txt)


for text in sys.stdin:
    print("holds" if holds(json.loads(text)) else "does not hold")
