"""Just enough reading of C++ for the tree checks: comments, strings, and where functions begin."""

import re

TOKEN = re.compile(
    r"""//[^\n]*                               # line comment
      | /\*.*?\*/                              # block comment
      | R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"   # raw string
      | "(?:\\.|[^"\\\n])*"                    # string
      | (?<![\w'])'(?:\\.|[^'\\\n])+'          # character, not a digit separator
    """,
    re.DOTALL | re.VERBOSE,
)
NOT_A_FUNCTION = re.compile(r"^\s*(?:namespace|class|struct|union|enum|extern)\b")


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def blank_comments_and_strings(text):
    """The text with those replaced by spaces; line ends stay."""
    return TOKEN.sub(blank, text)


def blank_comments(text):
    return TOKEN.sub(lambda match: blank(match) if match[0].startswith("/") else match[0], text)


def functions(text):
    """(first, last) line of each outermost function body, from the line of its signature."""
    code = blank_comments_and_strings(text)
    code = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", blank, code, flags=re.MULTILINE)
    depth = 0  # of braces inside the current function; 0 outside
    header = 0  # where the text that precedes the next brace begins
    for brace in re.finditer(r"[{};]", code):
        at = brace.start()
        if depth > 0:
            depth += {"{": 1, "}": -1, ";": 0}[brace[0]]
            if depth == 0:
                yield first, line_of(code, at)
                header = at + 1
            continue
        before = code[header:at]
        if brace[0] == "{" and "(" in before and not NOT_A_FUNCTION.match(before):
            depth = 1
            first = line_of(code, header + len(before) - len(before.lstrip()))
        header = at + 1
