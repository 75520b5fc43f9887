#!/usr/bin/python3
"""Checks the rules of the project that can be checked by reading: run as `tests/tidy/tidy.py`."""

import pathlib
import sys
import tomllib

import rules_includes
import rules_language
import rules_size
import rules_states
import rules_tree
from sources import Problem, Project

RULES = [rules_size, rules_includes, rules_language, rules_tree, rules_states]


def problems_of(root, allowed):
    """Every problem that `allowed` does not excuse; also excuses that are no longer needed."""
    project = Project(root)
    excused = {(entry["rule"], entry["file"]): entry for entry in allowed}
    used = set()
    found = []
    for problem in (problem for rules in RULES for problem in rules.check(project)):
        entry = excused.get((problem.rule, problem.path))
        if entry and problem.size <= entry.get("limit", problem.size):
            used.add((problem.rule, problem.path))
        else:
            found.append(problem)
    for key, entry in excused.items():
        if not entry.get("reason"):
            found.append(Problem("allowed", entry["file"], 1, "an exception needs a reason"))
        if key not in used and not any((p.rule, p.path) == key for p in found):
            found.append(Problem("allowed", entry["file"], 1,
                                 f"needs no exception from '{entry['rule']}' any more: delete it"))
    return sorted(found, key=lambda p: (p.path, p.line, p.rule)), len(project.sources)


def main():
    here = pathlib.Path(__file__).resolve().parent
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here.parent.parent
    allowed = tomllib.loads((here / "allowed.toml").read_text())["allowed"]
    found, files = problems_of(root, allowed)
    for problem in found:
        print(f"{problem.path}:{problem.line}: {problem.sentence} [{problem.rule}]")
    print(f"tidy: {files} files, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
