"""Checks every dependency's licence and source against deny.toml, with nothing but cargo and Python.

Stands in for `cargo deny check licenses sources` where cargo-deny is not installed.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def listed(text, key):
    """The strings of the array `key` in deny.toml."""
    array = re.search(rf"^{key} = \[(.*?)\]", text, re.MULTILINE | re.DOTALL)
    return set(re.findall(r'"([^"]+)"', array.group(1)))


def permitted(expression, allowed):
    """Whether an SPDX expression can be met with allowed licences. `/` is the old spelling of OR."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))

    def either():
        value = both()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            value = both() or value
        return value

    def both():
        value = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            value = one() and value
        return value

    def one():
        name = tokens.pop(0)
        if name == "(":
            value = either()
            tokens.pop(0)
            return value
        if tokens and tokens[0] == "WITH":
            tokens.pop(0)
            name = f"{name} WITH {tokens.pop(0)}"
        return name in allowed

    return either() and not tokens


def problems(packages, allowed, registries):
    """One line for each dependency that is not allowed."""
    for package in packages:
        name = f"{package['name']} {package['version']}"
        source = package["source"]
        if source and source.removeprefix("registry+") not in registries:
            yield f"{name} comes from {source}"
        licence = package["license"] or of_file(package)
        if not licence:
            yield f"{name} states no licence"
        elif not permitted(licence, allowed):
            yield f"{name} is licensed {licence}"


def of_file(package):
    """The SPDX name of a licence that a package states as a file only."""
    if not package["license_file"]:
        return None
    path = Path(package["manifest_path"]).parent / package["license_file"]
    text = " ".join(path.read_text().split())
    grant = "Permission is hereby granted, free of charge, to any person obtaining a copy of this software"
    return "MIT" if grant in text else None


def main():
    text = (ROOT / "deny.toml").read_text()
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    metadata = subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    packages = json.loads(metadata.stdout)["packages"]
    found = list(problems(packages, listed(text, "allow"), listed(text, "allow-registry")))
    for problem in found:
        print(problem)
    print(f"{len(packages)} packages, {len(found)} with a licence or a source that deny.toml does not allow")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
