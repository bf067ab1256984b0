"""Documentation pages as tests: the steps of a page, and the comparison of output."""

from __future__ import annotations

import os

import pytest

from floe_testing.transcripts import Command, Edit, Reader, Write, matches, steps_of

PAGE = """\
# A page

```python title="sub/hello.py"
print("hello")
```

```yaml
not: a step
```

```diff title="sub/hello.py"
-print("hello")
+print("bye")
```

```console
$ cd sub
$ python hello.py
bye
$ false
$ echo $?
1
```
"""


def test_files_changes_and_commands_are_steps():
    assert list(steps_of(PAGE)) == [
        Write("sub/hello.py", 'print("hello")\n'),
        Edit("sub/hello.py", 'print("hello")\n', 'print("bye")\n'),
        Command("cd sub", ""),
        Command("python hello.py", "bye\n"),
        Command("false", ""),
        Command("echo $?", "1\n"),
    ]


def test_a_reader_stays_in_the_folder_and_remembers_the_exit_code(tmp_path):
    reader = Reader(tmp_path, os.environ)
    for step in steps_of(PAGE):
        printed = reader.do(step)
        if isinstance(step, Command):
            assert matches(step.output, printed), (step.line, printed)


def test_a_failure_that_the_page_does_not_show_is_one(tmp_path):
    reader = Reader(tmp_path, os.environ)
    reader.do(Command("false", ""))
    with pytest.raises(AssertionError, match="does not show its exit code"):
        reader.do(Command("true", ""))


def test_a_change_of_lines_that_are_not_there_is_refused(tmp_path):
    (tmp_path / "file").write_text("one\n")
    with pytest.raises(AssertionError, match="must contain exactly once"):
        Reader(tmp_path, os.environ).do(Edit("file", "two\n", "three\n"))


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ("", "", True),
        ("", "more\n", False),
        ("3 rows in … s.\n", "3 rows in 4.2 s.\n", True),
        ("3 rows in … s.\n", "4 rows in 4.2 s.\n", False),
        ("first\n…\nlast\n", "first\nlast\n", True),
        ("first\n…\nlast\n", "first\nx\ny\nlast\n", True),
        ("first\n…\nlast\n", "first\nx\ny\n", False),
        ("a (b)  c\n", "a (b)      c   \n", True),
        ("a b\n", "ab\n", False),
        ("…\n", "", True),
    ],
)
def test_an_output_is_what_the_page_shows(expected, actual, same):
    assert matches(expected, actual) is same
