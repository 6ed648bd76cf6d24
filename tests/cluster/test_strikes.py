"""Tests of what decides in a storm."""

import itertools
import random
import unittest

from strikes import SPANS, bugs, lateness, missing, plan

SERVICES = {"frontend": 2, "history": 2, "PostgreSQL": 1}


def failing(run):
    return f"WARN core: Failing workflow task run_id={run} failure=Nondeterminism error: marker"


def not_taken(run):
    return f'WARN core: Task not found when completing error=workflow execution already completed run_id="{run}"'


class Strikes(unittest.TestCase):
    def test_each_round_kills_and_freezes_every_service(self):
        length = len(SERVICES) * len(SPANS)
        for seed in range(50):
            strikes = list(itertools.islice(plan(SERVICES, random.Random(seed)), 3 * length))
            for begin in range(0, len(strikes), length):
                self.assertEqual(missing(SERVICES, {strike[:2] for strike in strikes[begin : begin + length]}), [])
            self.assertTrue(all(strike.target < SERVICES[strike.service] for strike in strikes))

    def test_a_seed_has_one_storm(self):
        storms = [list(itertools.islice(plan(SERVICES, random.Random(seed)), 20)) for seed in (7, 7, 8)]
        self.assertEqual(storms[0], storms[1])
        self.assertNotEqual(storms[0], storms[2])

    def test_a_service_that_was_left_out_is_named(self):
        struck = {("frontend", "kill"), ("frontend", "freeze"), ("history", "kill"), ("PostgreSQL", "freeze")}
        self.assertEqual(missing(SERVICES, struck), ["history was never frozen", "PostgreSQL was never killed"])

    def test_a_late_digest_counts_for_the_strike_under_which_it_was_due(self):
        for sent, expected in [
            ([], [0, 0]),
            ([(95, 130)], [0, 0]),  # due before the first strike
            ([(98, 105)], [4, 0]),  # waits when the strike begins
            ([(120, 123), (130, 140)], [7, 0]),
            ([(196, 230)], [31, 0]),
            ([(197, 230)], [0, 30]),
            ([(150, 151)], [0, 0]),  # sent before its time, as its window was older
        ]:
            self.assertEqual(lateness([100, 200], sent, 3), expected, sent)

    def test_only_panics_and_changed_decisions_in_a_log_are_bugs(self):
        stray = "Nondeterminism error: Missing associated machine for LocalActivity(27)"
        panic = "thread 'main' panicked at main.rs:1"
        for lines, expected in [
            (["attempt ended", stray], []),
            ([panic], [panic]),
            ([failing("a"), "INFO other", not_taken("b"), not_taken("a")], []),
            ([failing("a"), not_taken("b")], [failing("a")]),
            ([failing("a"), failing("a"), not_taken("a")], [failing("a")]),
            ([not_taken("a"), failing("a")], [failing("a")]),
        ]:
            self.assertEqual(list(bugs(lines)), expected, lines)


if __name__ == "__main__":
    unittest.main()
