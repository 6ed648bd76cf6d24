#!/usr/bin/env python3
"""Finds circles of imports between more than two files of a crate, and between its top folders.

A parent and its child may know each other. A larger circle has no place to begin reading, and neither has one of folders: a folder is
a module of the crate's root with all that is below it. An edge leads from a file to the
file that defines the imported name: a `pub use` on the way is followed, and tests inside a file are left out."""

import pathlib
import re
import subprocess
import sys

LARGEST = 2
ROOTS = ("lib", "main")
Module = tuple[str, ...]

# Comments, raw strings, strings, and characters that are braces or quotes.
TEXT = re.compile(r'''//[^\n]*|r(#*)".*?"\1|"(?:\\.|[^"\\])*"|'(?:[{}"]|\\.)[']''', re.DOTALL)


def code(text: str) -> str:
    """The file without comments, strings and modules inside it."""
    text = TEXT.sub("", text)
    while opening := re.search(r"\bmod \w+ \{", text):
        depth, end = 1, opening.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        text = text[: opening.start()] + text[end:]
    return text


def paths(tree: str) -> list[list[str]]:
    """The paths of one `use`, without its braces."""
    start = tree.find("{")
    if start < 0:
        return [tree.split(" as ")[0].strip().split("::")]
    parts, depth = [""], 0
    for letter in tree[start + 1 : tree.rindex("}")]:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [path for part in parts if part.strip() for path in paths(tree[:start] + part.strip())]


class Crate:
    def __init__(self, source: pathlib.Path) -> None:
        self.code: dict[Module, str] = {}
        for file in sorted(source.rglob("*.rs")):
            module = file.relative_to(source).with_suffix("").parts
            self.code[() if module[0] in ROOTS else module] = code(file.read_text())
        self.exports = {
            module: [path for tree in re.findall(r"\bpub(?:\([^)]*\))? use ([^;]+);", text) for path in paths(tree)]
            for module, text in self.code.items()
        }
        self.edges = {module: self.imports(module) for module in self.code}

    def imports(self, module: Module) -> set[Module]:
        text = self.code[module]
        found = [path for tree in re.findall(r"\buse ([^;]+);", text) for path in paths(tree)]
        body = re.sub(r"\buse [^;]+;", "", text)
        found += [path.split("::") for path in re.findall(r"(?<![:\w])((?:\w+::)+\w+)", body)]
        files = {self.file(module, path) for path in found}
        return {file for file in files if file is not None and file != module}

    def file(self, module: Module, path: list[str], hops: int = 0) -> Module | None:
        """The file that defines the name at the end of `path`, or `None` for another crate's."""
        if path[0] in ("crate", "self", "super"):
            ups = sum(part == "super" for part in path)
            module = () if path[0] == "crate" else module[: len(module) - ups]
            path = path[max(ups, 1) :]
        elif (*module, path[0]) not in self.code:
            return None
        while path and (*module, path[0]) in self.code:
            module, path = (*module, path[0]), path[1:]
        for export in self.exports.get(module, []):
            if path and hops < 5 and path[0] in export[-1:]:
                return self.file(module, export, hops + 1) or module
        return module if module in self.code else None

    def folders(self) -> dict[Module, set[Module]]:
        """The edges between the top folders, without tests; the crate's root, which declares them, is none."""
        edges: dict[Module, set[Module]] = {module[:1]: set() for module in self.code if module}
        for module, others in self.edges.items():
            if module and "tests" not in module:
                edges[module[:1]] |= {other[:1] for other in others if other and other[:1] != module[:1]}
        return edges


def circles(edges: dict[Module, set[Module]], largest: int) -> list[set[Module]]:
    """The sets of more than `largest` that all reach each other."""

    def reached(start: Module) -> set[Module]:
        seen: set[Module] = set()
        left = [start]
        while left:
            new = edges[left.pop()] - seen
            seen |= new
            left += new
        return seen

    reach = {module: reached(module) for module in edges}
    found = {frozenset({a} | {b for b in reach[a] if a in reach[b]}) for a in edges}
    return [set(circle) for circle in found if len(circle) > largest]


def main() -> int:
    root = pathlib.Path(__file__).parent.parent
    wrong = 0
    listed = subprocess.run(["git", "ls-files", "*Cargo.toml"], cwd=root, capture_output=True, text=True, check=True)
    for manifest in sorted(listed.stdout.splitlines()):
        source = (root / manifest).parent / "src"
        if not source.is_dir():
            continue
        crate = Crate(source)
        for what, edges, largest in (("files", crate.edges, LARGEST), ("folders", crate.folders(), 1)):
            for circle in circles(edges, largest):
                wrong += 1
                names = ", ".join(sorted("/".join(module) or "the crate's root" for module in circle))
                print(f"{source.relative_to(root)}: these {len(circle)} {what} import each other in a circle: {names}")
    print(f"imports: {wrong or 'no'} circle{'' if wrong == 1 else 's'} of more than {LARGEST} files, or of folders")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
