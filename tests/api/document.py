#!/usr/bin/env python3
"""The OpenAPI document of the API, and what is made from it: the reference page and the JSON Schema of an event.

usage: document.py check|write [TIDINGS]

`write` takes the document of the program TIDINGS, or of a fresh build, and writes docs/openapi.json, docs/api.md and
docs/event.schema.json. `check` fails if one
of them is not current, or if the document breaks callers of the last commit's. To break them on purpose, copy the line that
`check` prints into tests/api/accepted-breaks.txt, and say in CHANGELOG.md what callers must change.
"""

import json
import pathlib
import subprocess
import sys

from breaking import breaks
from reference import page

ROOT = pathlib.Path(__file__).parent.parent.parent
DOCUMENT, REFERENCE, SCHEMA = "docs/openapi.json", "docs/api.md", "docs/event.schema.json"
ACCEPTED = pathlib.Path(__file__).with_name("accepted-breaks.txt")


def of_code(program):
    """The document that the program prints."""
    command = [program] if program else ["cargo", "run", "--quiet", "--package", "tidings", "--"]
    command += ["gateway", "openapi"]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def event_schema(document):
    """The JSON Schema of an event as text, for producers that check events before they send them."""
    event = document["components"]["schemas"]["Event"]
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Event"}
    return json.dumps(head | event, indent=2, ensure_ascii=False) + "\n"


def committed(revision):
    """The document of a commit. None: the commit has none."""
    shown = subprocess.run(["git", "show", f"{revision}:{DOCUMENT}"], cwd=ROOT, capture_output=True, text=True)
    return shown.stdout if shown.returncode == 0 else None


def before(text):
    """The document that callers know: the last commit's, or the one before if the last commit changed nothing since."""
    last = committed("HEAD")
    return committed("HEAD~1") if last == text else last


def findings(text):
    """A sentence for each fault."""
    document = json.loads(text)
    for path, wanted in ((DOCUMENT, text), (REFERENCE, page(document)), (SCHEMA, event_schema(document))):
        file = ROOT / path
        if not file.exists() or file.read_text() != wanted:
            yield f"{path} is not current; type: python3 tests/api/document.py write"
    known = before(text)
    lines = ACCEPTED.read_text().splitlines()
    accepted = {line for line in lines if not line.startswith("#")}
    for broken in breaks(json.loads(known), document) if known else []:
        if broken not in accepted:
            yield f"breaks callers: {broken}"


def main(arguments):
    if not arguments or arguments[0] not in ("check", "write") or len(arguments) > 2:
        sys.exit(__doc__)
    text = of_code(arguments[1] if len(arguments) > 1 else None)
    if arguments[0] == "write":
        (ROOT / DOCUMENT).write_text(text)
        (ROOT / REFERENCE).write_text(page(json.loads(text)))
        (ROOT / SCHEMA).write_text(event_schema(json.loads(text)))
        return
    found = list(findings(text))
    for finding in found:
        print(finding)
    if found:
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
