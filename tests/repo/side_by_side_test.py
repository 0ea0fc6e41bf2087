"""What runs the tests of an end-to-end program side by side (tests/e2e/program.py) leaves nothing out without a word that unittest
would do."""

import contextlib
import io
import sys
import unittest

import tree

sys.path.insert(0, str(tree.ROOT / "tests/e2e"))
import program  # noqa: E402


class SideBySide(tree.RuleTest):
    def ran(self, kind, failfast=False):
        loader, result = unittest.TestLoader(), unittest.TestResult()
        loader.suiteClass = program.SideBySide
        suite = loader.loadTestsFromTestCase(kind)
        result.failfast, suite.most = failfast, 1 if failfast else 3
        with contextlib.redirect_stderr(io.StringIO()):
            suite.run(result)
        return result

    def test_what_fails_and_what_is_skipped_counts_as_such(self):
        class Mixed(unittest.TestCase):
            def test_good(self):
                pass

            def test_bad(self):
                self.fail("as it should")

            def test_broken(self):
                raise KeyError("none")

            def test_parts(self):
                for number in range(3):
                    with self.subTest(number):
                        self.assertEqual(number, 1)

            def test_skipped(self):
                self.skipTest("today")

            @unittest.expectedFailure
            def test_known(self):
                self.fail("as it always does")

            @unittest.expectedFailure
            def test_mended(self):
                pass

        result = self.ran(Mixed)
        counts = {what: len(getattr(result, what)) for what in ("failures", "errors", "skipped", "expectedFailures", "unexpectedSuccesses")}
        self.assertEqual(counts, {"failures": 3, "errors": 1, "skipped": 1, "expectedFailures": 1, "unexpectedSuccesses": 1})
        self.assertEqual((result.testsRun, result.wasSuccessful()), (7, False))

    def test_a_mended_test_that_is_expected_to_fail_is_a_failure(self):
        class Mended(unittest.TestCase):
            @unittest.expectedFailure
            def test_it(self):
                pass

        self.assertFalse(self.ran(Mended).wasSuccessful())

    def test_a_clean_up_of_the_class_that_fails_is_an_error(self):
        class Littered(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                cls.addClassCleanup(lambda: {}["there is none"])

            def test_good(self):
                pass

        result = self.ran(Littered)
        self.assertEqual((result.testsRun, len(result.errors)), (1, 1))
        self.assertIn("there is none", result.errors[0][1])

    def test_hooks_that_would_not_be_called_are_refused(self):
        class Hooked(unittest.TestCase):
            @classmethod
            def tearDownClass(cls):
                pass

            def test_good(self):
                pass

        class Heir(Hooked):
            pass

        for kind in (Hooked, Heir):
            result = self.ran(kind)
            self.assertIn("tearDownClass would not be called", result.errors[0][1])
            self.assertEqual(result.testsRun, 0)

    def test_after_a_failure_none_begins_where_that_is_asked_for(self):
        class Three(unittest.TestCase):
            def test_1(self):
                pass

            def test_2(self):
                self.fail("as it should")

            def test_3(self):
                pass

        self.assertEqual(self.ran(Three, failfast=True).testsRun, 2)
        self.assertEqual(self.ran(Three).testsRun, 3)


if __name__ == "__main__":
    tree.main()
