"""Rules on the text of the code: banned calls, how files open, words that may not stay."""

import ast
import re

from sources import CODE, Problem, is_shell_of_machine, line_of

_BANNED = [
    (re.compile(r"\bstd::rand\b|\bsrand\s*\(|\brand\s*\(\s*\)"), "dice are injected: base/rng.h"),
    (re.compile(r"(?<![\w.>:])(?:std::|::)?system\s*\("), "no shell: start a program by its argv"),
    (re.compile(r"\bpopen\s*\("), "no shell: start a program by its argv"),
    (re.compile(r"\b(pkill|killall)\b"), "end processes by their id, never by name"),
    (re.compile(r"\.\s*detach\s*\(\s*\)"), "every thread has an owner that joins it"),
]
# Hands may sleep between two looks at what the kernel does not announce; tests and machines never.
_SLEEP = (re.compile(r"\bsleep_for\s*\(|\bsleep_until\s*\(|\bu?sleep\s*\(|\bnanosleep\s*\("),
          "wait for a condition with a deadline, not for time")
_BANNED_PYTHON = [
    (re.compile(r"\b(pkill|killall)\b"), "end processes by their id, never by name"),
    (re.compile(r"\bos\.system\s*\(|\bshell\s*=\s*True"), "no shell: start a program by its argv"),
]
_UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
_FOREIGN = re.compile(r"(?<![\w.-])shared" r"/|\b[Ii]ssue #?\d+")


def check(project):
    for source in project.sources:
        yield from _words(source)
        if source.suffix in CODE:
            hands = is_shell_of_machine(source) and source.top != "tests"
            yield from _calls(source, source.bare, _BANNED + ([] if hands else [_SLEEP]))
            yield from _coroutines(source)
            yield from _opening(project, source)
        elif source.suffix == ".py" and not source.path.startswith("tests/tidy/"):
            yield from _calls(source, source.text, _BANNED_PYTHON)
            if source.top == "tests":
                yield from _python_sleeps(source)
            if not re.match(r'(#!.*\n)?(""")', source.text):
                yield Problem("purpose", source.path, 1, "open with a docstring: what is it for?")


def _calls(source, text, banned):
    for pattern, instead in banned:
        for match in pattern.finditer(text):
            yield Problem("banned", source.path, line_of(text, match.start()),
                          f"'{match.group(0).strip()}': {instead}")


def _python_sleeps(source):
    """By the syntax tree: programs that a test starts stand in its text and may sleep."""
    try:
        tree = ast.parse(source.text)
    except SyntaxError as error:
        yield Problem("banned", source.path, error.lineno or 1, f"no Python: {error.msg}")
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"time.sleep", "sleep"}:
            yield Problem("banned", source.path, node.lineno,
                          "time.sleep: wait for a condition with wait_for")


def _coroutines(source):
    """GCC 12 frees temporaries of an await expression twice; so none are built there."""
    for match in re.finditer(r"\bco_await\b([^;]*);", source.bare):
        if re.search(r"[{\[]", match.group(1)):
            yield Problem("co_await", source.path, line_of(source.bare, match.start()),
                          "no '{' and no '[' between co_await and ';': name the value, or the "
                          "awaitable, in its own statement first")
    for match in re.finditer(r"\bco_spawn\s*\(([^;]*)\bdetached\s*\)", source.bare):
        if "[" in match.group(1):
            yield Problem("detached", source.path, line_of(source.bare, match.start()),
                          "a detached lambda: its captures die before it does; spawn a member "
                          "function that its owner waits for")


def _opening(project, source):
    # A header's purpose is also that of its .cpp; a test's is what it is named after.
    explained = source.path[:-4] + ".h" in project.by_path or source.name.endswith("_test.cpp")
    if not explained and not source.text.startswith("// "):
        yield Problem("purpose", source.path, 1,
                      "open with one to three comment lines: what is this file for?")
    if source.suffix == ".h":
        code = [line for line in source.bare.splitlines() if line.strip()]
        if not code or code[0].strip() != "#pragma once":
            yield Problem("pragma", source.path, 1, "the first line of code must be #pragma once")


def _words(source):
    for number, line in enumerate(source.lines, 1):
        match = _UNFINISHED.search(line)
        if match:
            yield Problem("unfinished", source.path, number,
                          f"'{match.group(0)}' has no owner: do it or file it")
        match = _FOREIGN.search(line)
        if match:
            yield Problem("foreign", source.path, number,
                          f"'{match.group(0)}' means nothing to a reader of this repository")
