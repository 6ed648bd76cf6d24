#!/usr/bin/env python3
"""Checks the project's English: comments, Markdown pages and the subjects of commits.

usage: prose.py [PATH...]

Finds doc comments that open with a relative clause, the phrases of words.txt, long sentences, long names of tests, and
subjects of commits that are long or have no area. The exit code is 1 if there are any.
"""

import pathlib
import re
import subprocess
import sys

FILES = re.compile(r"(\.(rs|md|toml|proto|sql)|^dev|^\.ci/run)$")
SKIPPED = re.compile(r"(^|/)(LICENSE|snapshots/|data/)")
COMMENT = re.compile(r"\s*(///|//!|//|--|#)\s?(.*)")
HASH_COMMENT = re.compile(r"\s*(#)(?!\[)\s?(.*)")
OPENER = re.compile(r"(What|Whether|Who|Whose|Whom|Which|Where|When|How)\b(?!.*\?)")
WORD = re.compile(r"[A-Za-z0-9'`_./-]+")
END_OF_SENTENCE = re.compile(r"[.;:!?][*_)\"']*\s|\s·\s")
# A row of a table, a choice of values, or a setting in a comment: its cells are not one sentence.
ROW = re.compile(r".*\|| *[\w.]+ += ")
MOST_WORDS = 34
TEST = re.compile(r"#\[(?:tokio::)?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:async )?fn (\w+)")
MOST_WORDS_OF_A_TEST = 12
SUBJECT = re.compile(r"[a-z0-9][^:]*: [^A-Z\s]\S*( \S+)+")
MOST_CHARACTERS = 65
# The last commit before the rule for subjects.
BASE = "ee7a016"


def read_phrases(text):
    """Pairs of a pattern and what to write instead."""
    lines = [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
    return [(re.compile(rf"\b(?:{phrase})(?!\w)", re.I), advice) for phrase, advice in lines]


def prose(path, text):
    """The lines of prose: number, text, and whether a doc comment opens there. None stands between paragraphs."""
    markdown, in_code, opening = path.endswith(".md"), False, True
    comment = COMMENT if re.search(r"\.(rs|proto|sql)$", path) else HASH_COMMENT
    for number, line in enumerate(text.splitlines(), 1):
        if markdown:
            fence = line.lstrip().startswith(("```", "~~~"))
            in_code ^= fence
            yield None if fence or in_code or line.startswith(("    ", "<!--")) else (number, line, False)
            continue
        match = comment.match(line)
        if match is None:
            opening = True
            yield None
            continue
        yield number, match[2], opening and match[1] in ("///", "//!")
        opening = False


def findings(path, text, phrases):
    """Pairs of a line's number and what is wrong there."""
    sentence, start = "", 0
    for line in [*prose(path, text), None]:
        bare = "" if line is None else re.sub(r"`[^`]*`", "`x`", line[1])
        # A new paragraph, list item, heading or row of a table ends the sentence before.
        if not bare.strip() or re.match(r"\s*([-*#]|\d+\.)", bare) or ROW.match(bare):
            yield from too_long(sentence, start)
            sentence = ""
        if line is None:
            continue
        number, whole, opens = line
        if opens and OPENER.match(whole):
            yield number, f"opens with a relative clause: {whole}"
        for pattern, advice in phrases:
            if match := pattern.search(bare):
                yield number, f'"{match[0]}" (say: {advice}): {whole}'
        if ROW.match(bare):
            continue
        start = start if sentence else number
        *done, sentence = END_OF_SENTENCE.split(f"{sentence} {bare.strip()}".strip())
        for one in done:
            yield from too_long(one, start)
            start = number
    yield from too_long(sentence, start)


def too_long(sentence, number):
    words = len(WORD.findall(sentence))
    if words > MOST_WORDS:
        yield number, f"{words} words in a sentence: {sentence}"


def test_names(text):
    """Pairs of a line's number and what is wrong with the name of the test there."""
    for test in TEST.finditer(text):
        number, words = text.count("\n", 0, test.start(1)) + 1, [word for word in test[1].split("_") if word]
        if len(words) > MOST_WORDS_OF_A_TEST:
            yield number, f"{len(words)} words in the name of a test, {MOST_WORDS_OF_A_TEST} at most: {test[1]}"
        elif OPENER.match(words[0].capitalize()):
            yield number, f"the name of a test opens with a relative clause: {test[1]}"


def wrong_subject(subject):
    """What is wrong with the subject of a commit, or None."""
    if len(subject) > MOST_CHARACTERS:
        return f"{len(subject)} characters, {MOST_CHARACTERS} at most"
    return None if SUBJECT.fullmatch(subject) else 'not "area: imperative"'


def git(*arguments):
    return subprocess.run(["git", *arguments], capture_output=True, text=True).stdout


def commits():
    """Commits since BASE; in a clone without BASE, the last one."""
    since = [f"{BASE}..HEAD"] if git("rev-parse", "--verify", "--quiet", f"{BASE}^{{commit}}") else ["-n1"]
    return [line.split(" ", 1) for line in git("log", "--no-merges", "--format=%h %s", *since).splitlines()]


def main(paths):
    phrases = read_phrases(pathlib.Path(__file__).with_name("words.txt").read_text())
    found = []
    for path in git("ls-files", "--", *(paths or ["."])).splitlines():
        if FILES.search(path) and not SKIPPED.search(path) and pathlib.Path(path).is_file():
            text = pathlib.Path(path).read_text(encoding="utf-8")
            wrongs = [*findings(path, text, phrases), *(test_names(text) if path.endswith(".rs") else [])]
            found += [f"{path}:{number}: {wrong[:160]}" for number, wrong in wrongs]
    for commit, subject in commits():
        if wrong := wrong_subject(subject):
            found.append(f"commit {commit}: {wrong}: {subject}")
    print("\n".join(found) if found else "prose: nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
