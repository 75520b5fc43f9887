"""docs/states.md lists every event and state of the machines, and nothing that is gone."""

import re

from sources import Problem, line_of

_DOCUMENT = "docs/states.md"
_VARIANT = re.compile(r"\busing\s+(?:Event|\w*State)\s*=\s*std::variant<([^;]*)>\s*;")
_ENUM = re.compile(r"\benum\s+class\s+HostState\s*\{([^}]*)\}")
_RECORD = re.compile(r'\brecord\(\s*"([a-z_]+)"')
_ROW = re.compile(r"^\| `(\w+)`", re.M)
_SECTION = re.compile(r"^## (.+)$", re.M)


def check(project):
    document = project.by_path.get(_DOCUMENT)
    if not document:
        return
    sections = _sections(document.text)
    for title, (offset, listed) in sections.items():
        match = re.fullmatch(r"`([\w/]+)`", title)
        if match:
            yield from _compare(project, match.group(1), offset, listed)
    _, events = sections.get("Lines of `dlaunch events`", (0, {}))
    for source in project.code:
        if source.top in {"tests", "simulation", "trainer"}:
            continue
        for match in _RECORD.finditer(source.text):
            if match.group(1) not in events:
                yield Problem("states", source.path, line_of(source.text, match.start()),
                              f"event '{match.group(1)}' has no line in {_DOCUMENT}")


def _sections(text):
    """title → (offset, {name: offset}) of the names in the first column of its tables."""
    heads = list(_SECTION.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return {head.group(1): (head.start(), {row.group(1): row.start()
                                           for row in _ROW.finditer(text, head.end(), end)})
            for head, end in zip(heads, ends)}


def _compare(project, folder, offset, listed):
    text = project.by_path[_DOCUMENT].text
    in_code = {}
    for source in project.code:
        if source.folder != folder or source.suffix != ".h":
            continue
        for match in [*_VARIANT.finditer(source.bare), *_ENUM.finditer(source.bare)]:
            for name in re.findall(r"\w+", match.group(1)):
                in_code[name] = source.path
    if not in_code:
        yield Problem("states", _DOCUMENT, line_of(text, offset), f"{folder}/ has no machine")
        return
    for name in sorted(in_code.keys() - listed.keys()):
        yield Problem("states", in_code[name], 1,
                      f"'{name}' has no line in {_DOCUMENT}, section {folder}")
    for name in sorted(listed.keys() - in_code.keys()):
        yield Problem("states", _DOCUMENT, line_of(text, listed[name]),
                      f"'{name}' is no event or state of {folder}/ any more")
