"""That the build, the READMEs and the documents name what is there, and all of it."""

import itertools
import pathlib
import re

from sources import Problem, line_of

_SOURCE_FOLDERS = ("base", "protocol", "rendezvous", "supervisor", "launcher", "trainer",
                   "simulation")
_CHECKED_SUFFIXES = {".h", ".cpp", ".proto", ".py", ".md", ".cmake"}
# Names that stand for any such file.
_EXAMPLES = {"train.py", "main.cpp"}


def check(project):
    yield from _build(project)
    yield from _readmes(project)
    yield from _documents(project)


def _build(project):
    named = set()
    for source in project.sources:
        if source.name != "CMakeLists.txt":
            continue
        text = re.sub(r"#[^\n]*", lambda match: " " * len(match.group(0)), source.text)
        for match in re.finditer(r"(?<![\w/.${}-])[\w./-]+\.(?:cpp|proto)\b", text):
            path = _normal(f"{source.folder}/{match.group(0)}")
            named.add(path)
            # A test that compiles or reads sources of other folders names them from the root.
            if path not in project.by_path and match.group(0) not in project.by_path:
                yield Problem("build", source.path, line_of(text, match.start()),
                              f"{path} does not exist")
        # dlaunch_test and its kind may be called in a loop over names.
        for match in re.finditer(r"foreach\s*\(\s*\w+\s+([^)]*)\)", text):
            named.update(_normal(f"{source.folder}/{word}{end}") for word in match.group(1).split()
                         for end in (".cpp", "_test.cpp"))
    for source in project.sources:
        if source.suffix == ".cpp" and source.path not in named:
            yield Problem("build", source.path, 1, "in no CMakeLists.txt: dead code is deleted")


def _readmes(project):
    for folder in sorted(project.folders):
        parts = pathlib.PurePosixPath(folder).parts
        if not parts or parts[0] not in _SOURCE_FOLDERS or "io" in parts:
            continue
        if f"{folder}/README.md" not in project.by_path:
            yield Problem("readme", f"{folder}/README.md", 1,
                          "missing: purpose, main types, invariants, on one screen")


def _documents(project):
    for source in project.sources:
        if source.suffix != ".md":
            continue
        prose = re.sub(r"^```.*?^```", lambda match: re.sub(r"[^\n]", " ", match.group(0)),
                       source.text, flags=re.M | re.S)
        titles = re.findall(r"^# ", prose, re.M)
        if len(titles) != 1 or not source.text.startswith("# "):
            yield Problem("title", source.path, 1, "open with the one and only '# title'")
        for match in re.finditer(r"`([^`\s]+)`", prose):
            for name in _file_names(match.group(1)):
                if not _found(project, source, name):
                    yield Problem("dead_name", source.path, line_of(prose, match.start()),
                                  f"{name} does not exist")
        for match in re.finditer(r"\]\((?!\w+:|#)([^)#\s]+)", prose):
            if not project.exists(_normal(f"{source.folder}/{match.group(1)}")):
                yield Problem("dead_name", source.path, line_of(prose, match.start()),
                              f"the link to {match.group(1)} leads nowhere")


def _file_names(quoted):
    """`a.{h,cpp}` → a.h, a.cpp; what does not look like one of our files gives nothing."""
    match = re.fullmatch(r"([\w./-]*)\{([\w.,]+)\}([\w./-]*)", quoted)
    names = ([match.group(1) + part + match.group(3) for part in match.group(2).split(",")]
             if match else [quoted])
    return [name for name in names if re.fullmatch(r"[\w./-]+\w", name) and name not in _EXAMPLES
            and not name.startswith("/") and pathlib.PurePosixPath(name).suffix in _CHECKED_SUFFIXES
            and pathlib.PurePosixPath(name).stem]


def _found(project, source, name):
    if name.endswith(".pb.h"):
        return True
    parents = itertools.chain([pathlib.PurePosixPath(source.folder)],
                              pathlib.PurePosixPath(source.folder).parents)
    return any(project.exists(_normal(f"{parent}/{name}")) for parent in parents)


def _normal(path):
    parts = []
    for part in pathlib.PurePosixPath(path).parts:
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
