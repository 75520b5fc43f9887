"""Limits on files, functions, lines and the headers of machines."""

import re

from sources import Problem, line_of

FILE_LINES_MAX = 400
TEST_FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 100
MACHINE_HEADER_LINES_MAX = 120

_TYPE_HEADER = re.compile(r"\b(namespace|struct|class|enum|union|extern|export)\b[^()]*$")
_TEMPLATE = re.compile(r"\btemplate\s*<")


def check(project):
    for source in project.code:
        limit = TEST_FILE_LINES_MAX if source.top == "tests" else FILE_LINES_MAX
        yield from _limit("file", source, 1, len(source.lines), limit, "lines in this file")
        if _is_machine_header(source):
            yield from _limit("machine_header", source, 1, len(source.lines),
                              MACHINE_HEADER_LINES_MAX, "lines in the header of a machine")
        for begin, end in functions(source.bare):
            yield from _limit("function", source, begin, end - begin + 1, FUNCTION_LINES_MAX,
                              "lines in this function")
    for source in project.sources:
        if source.suffix not in {".h", ".cpp", ".py"}:
            continue
        in_raw = _raw_string_lines(source) if source.suffix in {".h", ".cpp"} else set()
        for number, line in enumerate(source.lines, 1):
            if number not in in_raw:
                yield from _limit("column", source, number, len(line), COLUMNS_MAX, "columns")


def _raw_string_lines(source):
    """Text that is printed or parsed as it stands cannot be broken at column 100."""
    inside = set()
    for match in re.finditer(r'R"([^()\s\\]{0,16})\(.*?\)\1"', source.text, re.S):
        first = line_of(source.text, match.start())
        inside.update(range(first, first + match.group(0).count("\n") + 1))
    return inside


def _limit(rule, source, line, size, most, what):
    if size > most:
        yield Problem(rule, source.path, line, f"{size} {what}, at most {most}: split it", size)


def _is_machine_header(source):
    if source.suffix != ".h" or source.name.endswith("_impl.h"):
        return False
    if source.top in {"tests", "simulation", "bench"}:
        return False
    contract = "next_deadline() const" in source.bare and re.search(r"\bstep\(", source.bare)
    return bool(contract) or source.name in {"event.h", "command.h"}


def functions(bare):
    """(first line, last line) of each function at namespace or class scope, signature included.

    A brace counter, not a parser: good enough because clang-format fixes the layout.
    """
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m.group(0)),
                  bare, flags=re.M)
    stack = []         # "type", "function" or "other" per open brace
    header = 0         # where the text that introduces the next brace begins
    begin = 0
    for match in re.finditer(r"[{};]", text):
        at, char = match.start(), match.group(0)
        inside_function = "function" in stack
        if char == "{":
            kind = "other" if inside_function else _kind(text[header:at])
            if kind == "function":
                begin = header + len(text[header:at]) - len(text[header:at].lstrip())
            stack.append(kind)
            if kind == "type":
                header = at + 1
        elif char == "}":
            kind = stack.pop() if stack else "other"
            # After a braced member initialiser the same constructor goes on.
            if "function" in stack or re.match(r"\s*[,{]", text[at + 1:at + 200]):
                continue
            if kind == "function":
                yield line_of(text, begin), line_of(text, at)
            header = at + 1
        elif not inside_function:
            header = at + 1


def _kind(header):
    header = re.sub(r"\balignas\s*\([^)]*\)|\[\[[^\]]*\]\]", "", _without_template(header))
    if _TYPE_HEADER.search(header):
        return "type"
    if "(" in header and not header.rstrip().endswith("="):
        return "function"
    return "other"


def _without_template(header):
    match = _TEMPLATE.search(header)
    if not match:
        return header
    depth, at = 1, match.end()
    while depth and at < len(header):
        depth += {"<": 1, ">": -1}.get(header[at], 0)
        at += 1
    return header[:match.start()] + _without_template(header[at:])
