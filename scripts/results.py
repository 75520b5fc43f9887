"""Counts the test results in JUnit files, names what failed, prints one closing line.

Usage: results.py [--failed STAGE]... FILE...; a stage that broke before it could write a file
counts as one failure. Exit code 0 only if nothing failed and something passed.
"""

import argparse
import sys
import xml.etree.ElementTree as ElementTree

OUTPUT_LINES_MAX = 40


def outcome(case):
    """passed, failed or skipped; CTest says it in an attribute, pytest in a child."""
    children = {child.tag for child in case}
    if children & {"failure", "error"} or case.get("status") == "fail":
        return "failed"
    if "skipped" in children or case.get("status") in {"disabled", "notrun"}:
        return "skipped"
    return "passed"


def tail(case):
    texts = [child.text for child in case if child.tag in {"failure", "error", "system-out"}]
    return "\n".join(text for text in texts if text).splitlines()[-OUTPUT_LINES_MAX:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--failed", action="append", default=[])
    parser.add_argument("files", nargs="*")
    asked = parser.parse_args()
    counts = {"passed": 0, "failed": len(asked.failed), "skipped": 0}
    for file in asked.files:
        for case in ElementTree.parse(file).iter("testcase"):
            result = outcome(case)
            counts[result] += 1
            if result == "failed":
                name = ".".join(filter(None, [case.get("classname"), case.get("name")]))
                print(f"FAILED {name} ({file})")
                print("\n".join(f"    {line}" for line in tail(case)))
            elif result == "skipped":
                print(f"skipped {case.get('name')} ({file})")
    for stage in asked.failed:
        print(f"FAILED stage: {stage}")
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return 0 if counts["passed"] and not counts["failed"] else 1


if __name__ == "__main__":
    sys.exit(main())
