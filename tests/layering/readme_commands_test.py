#!/usr/bin/env python3
"""The README runner runs what is marked, and fails when a command does."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

import readme_commands

LONG = "<!-- run -->\n```sh\nscripts/quickstart\nscripts/test\n```\n"


def outcome(markdown):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "README.md").write_text(markdown)
        (root / "scripts").mkdir()
        for script in readme_commands.LONG:
            (root / script).write_text("#!/bin/sh\nexit 9\n")  # never run
            (root / script).chmod(0o755)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            status = readme_commands.main(root, "/usr/bin/true")
        left = sorted(path.name for path in root.iterdir())
        return status, output.getvalue(), left


class ReadmeCommandsTest(unittest.TestCase):
    def test_marked_commands_run_in_a_copy(self):
        status, output, left = outcome(LONG + "<!-- run -->\n```sh\n# comment\ntouch new\n```\n")
        self.assertEqual(status, 0, output)
        self.assertIn("3 commands", output)
        self.assertEqual(left, ["README.md", "scripts"])

    def test_a_failing_command_fails(self):
        status, output, _ = outcome(LONG + "<!-- run -->\n```sh\nfalse\n```\n")
        self.assertEqual(status, 1)
        self.assertIn("`false` ended 1, expected 0", output)

    def test_an_expected_status_has_to_come(self):
        block = LONG + "<!-- run -->\n```console\n$ exit {}  # exit 3\noutput\n```\n"
        self.assertEqual(outcome(block.format(3))[0], 0)
        self.assertEqual(outcome(block.format(0))[0], 1)

    def test_unmarked_blocks_do_not_run(self):
        self.assertEqual(outcome(LONG + "```sh\nfalse\n```\n")[0], 0)

    def test_the_two_long_commands_have_to_be_there(self):
        self.assertEqual(outcome("<!-- run -->\n```sh\nscripts/test\n```\n")[0], 1)

    def test_a_mark_without_a_block_is_an_error(self):
        with self.assertRaises(ValueError):
            outcome("<!-- run -->\ntext\n")


if __name__ == "__main__":
    unittest.main()
