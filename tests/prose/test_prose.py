"""The findings of prose.py."""

import pathlib
import unittest

import prose

PHRASES = prose.read_phrases(pathlib.Path(prose.__file__).with_name("words.txt").read_text())


def found(path, text):
    return [number for number, _ in prose.findings(path, text, PHRASES)]


class Comments(unittest.TestCase):
    def test_the_first_line_of_a_doc_comment_names_the_thing(self):
        self.assertEqual(found("a.rs", "/// What it is.\nfn f() {}\n/// A thing.\n/// When it is late.\n"), [1])
        self.assertEqual(found("a.rs", "// Where the code is, in a plain comment.\n"), [])
        self.assertEqual(found("a.rs", "//! Who reads this?\n"), [])

    def test_a_phrase_of_the_list_is_found_in_every_kind_of_comment(self):
        for path in ["a.toml #", "a.sql --", "a.proto //", "dev #", "a.rs //", "a.rs ///", "a.rs //!"]:
            name, mark = path.split()
            self.assertEqual(found(name, f"{mark} Nobody waits.\n"), [1], path)

    def test_code_is_not_prose(self):
        self.assertEqual(found("a.rs", 'let text = "nobody";\n/// The user `nobody`.\n'), [])
        self.assertEqual(found("a.md", "```\nnobody\n```\n    nobody\n`nobody` is a user.\n"), [])

    def test_the_last_words_of_a_line_are_checked(self):
        self.assertEqual(found("a.md", "The value is none\n"), [1])
        self.assertEqual(found("a.md", "It is no key.\n"), [1])
        self.assertEqual(found("a.md", "It is no longer a key.\n"), [])


class TestNames(unittest.TestCase):
    def found(self, name):
        return [number for number, _ in prose.test_names(f"#[test]\n#[should_panic]\nfn {name}() {{}}\nfn other() {{}}\n")]

    def test_a_name_has_twelve_words_at_most(self):
        self.assertEqual(self.found("_".join(["word"] * 12)), [])
        self.assertEqual(self.found("_".join(["word"] * 13)), [3])

    def test_a_name_says_a_rule_and_opens_with_no_relative_clause(self):
        self.assertEqual(self.found("what_is_kept_stays"), [3])
        self.assertEqual(self.found("a_kept_row_stays"), [])


class Sentences(unittest.TestCase):
    def test_a_sentence_is_counted_across_lines(self):
        half = " ".join(["word"] * 20)
        self.assertEqual(found("a.rs", f"/// {half}\n/// {half}.\n"), [1])
        self.assertEqual(found("a.rs", f"/// {half}.\n/// {half}.\n"), [])

    def test_items_paragraphs_and_rows_are_sentences_of_their_own(self):
        half = " ".join(["word"] * 20)
        self.assertEqual(found("a.md", f"- {half}\n- {half}\n\n{half}\n\n{half}\n"), [])
        self.assertEqual(found("a.md", f"| {half} | {half} |\n"), [])
        self.assertEqual(found("a.toml", f'# most = "{half}"\n# least = "{half}"\n'), [])


class Subjects(unittest.TestCase):
    def test_a_subject_is_an_area_and_an_imperative(self):
        self.assertIsNone(prose.wrong_subject("store/postgres: set lock_timeout to 30 s"))
        for wrong in ["A thousand seeds", "tests: " + "long " * 13 + "x", "tests: Make them one", "tests:"]:
            self.assertIsNotNone(prose.wrong_subject(wrong), wrong)


if __name__ == "__main__":
    unittest.main()
