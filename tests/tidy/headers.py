"""Compiles each pure header alone that no .cpp of its own includes first (those are proven anyway).

Usage: headers.py COMPILER BUILD_DIRECTORY; the build directory holds the generated headers.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

from sources import Project, is_shell_of_machine

_NEEDS_TORCH = re.compile(r'#include <(torch|ATen|c10)/')
SECONDS_MAX = 60


def to_check(project):
    for source in project.code:
        if source.suffix != ".h" or source.top in {"tests", "bench"}:
            continue
        own = source.path[:-2] + ".cpp"
        if own in project.by_path or is_shell_of_machine(source) or needs_torch(project, source):
            continue
        yield source


def needs_torch(project, source, seen=None):
    seen = seen or set()
    if source.path in seen:
        return False
    seen.add(source.path)
    if _NEEDS_TORCH.search(source.text):
        return True
    included = (project.by_path.get(spelling[1:-1]) for _, spelling in source.includes)
    return any(needs_torch(project, other, seen) for other in included if other)


def compile_alone(compiler, root, build, source):
    command = [compiler, "-std=c++20", "-fsyntax-only", f"-I{root}", f"-isystem{build}",
               "-x", "c++", "-"]
    done = subprocess.run(command, input=f'#include "{source.path}"\n', cwd=root,
                          capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    return None if done.returncode == 0 else f"{source.path} does not compile alone\n{done.stderr}"


def main():
    compiler, build = sys.argv[1:]
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    sources = list(to_check(Project(root)))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [problem for problem in pool.map(
            lambda source: compile_alone(compiler, root, build, source), sources) if problem]
    print("\n".join(found))
    print(f"headers: {len(sources)} compiled alone, {len(found)} of them failed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
