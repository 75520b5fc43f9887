"""Which folder may use which, and that only the hands include or call what touches the world."""

import re

from sources import Problem, is_shell_of_machine, line_of

_BELOW = {
    "base": [],
    "protocol": ["base"],
    "rendezvous": ["base", "protocol"],
    "supervisor": ["base", "protocol", "rendezvous"],
    "launcher": ["base", "protocol", "rendezvous", "supervisor"],
    "trainer": ["base", "protocol"],
    "examples": ["trainer"],
}
_EVERYTHING = {"simulation", "tests", "bench"}
_FOLDERS = set(_BELOW) | _EVERYTHING

# What only files in io/ folders and main.cpp may include. OpenSSL's digests are arithmetic and
# allowed everywhere; its connections are not.
_WORLD = re.compile(
    r"<(boost/(asio|beast|process)|libssh/|sqlite3|spdlog/|openssl/(ssl|bio|x509)|sys/|linux/|net/"
    r"|netinet/|arpa/|(unistd|fcntl|poll|netdb|ifaddrs|pthread|signal|dirent|pwd|spawn|sched"
    r"|termios|dlfcn)\.h|(csignal|fstream|iostream|thread)>)")
_THREADS = re.compile(r"<thread>")
_TORCH = re.compile(r'["<](torch|ATen|c10|caffe2)/')
_WORLD_CALLS = re.compile(
    r"_clock::now\s*\(|\bclock_gettime\s*\(|\bgettimeofday\s*\(|\bstd::time\s*\(|\bgetenv\s*\("
    r"|\brandom_device\b")


def check(project):
    for source in project.code:
        yield from _arrows(project, source)
        yield from _own_header_first(project, source)
        yield from _torch(source)
        if source.top not in {"tests", "bench"} and not is_shell_of_machine(source):
            yield from _world(source)


def _arrows(project, source):
    # A program's main.cpp joins what the program is made of.
    joins = source.top in _EVERYTHING or source.path == "launcher/main.cpp"
    allowed = _FOLDERS if joins else {source.top, *_BELOW.get(source.top, [])}
    for line, spelling in source.includes:
        if spelling[0] == "<":
            continue
        path = spelling[1:-1]
        top = path.split("/", 1)[0]
        if top not in _FOLDERS:
            yield Problem("include", source.path, line,
                          f"{spelling}: write the path from the root of the repository")
        elif top not in allowed:
            yield Problem("arrow", source.path, line, f"{source.top}/ must not use {top}/")
        elif not path.endswith(".pb.h") and not project.exists(path):
            yield Problem("include", source.path, line, f"{path} does not exist")


def _own_header_first(project, source):
    if source.suffix != ".cpp":
        return
    own = source.path[:-4] + ".h"
    if own not in project.by_path:
        return
    if not source.includes or source.includes[0][1] != f'"{own}"':
        line = source.includes[0][0] if source.includes else 1
        yield Problem("own_header", source.path, line, f'the first include must be "{own}"')


def _torch(source):
    if source.top in {"trainer", "bench", "examples"} or source.path.startswith("tests/trainer/"):
        return
    for line, spelling in source.includes:
        if _TORCH.match(spelling):
            yield Problem("torch", source.path, line, f"{spelling}: LibTorch belongs into trainer/")


def _world(source):
    for line, spelling in source.includes:
        if not _WORLD.match(spelling):
            continue
        if source.top == "trainer" and _THREADS.match(spelling):
            continue
        yield Problem("pure", source.path, line,
                      f"{spelling} touches the world: only io/ folders and main.cpp may include it")
    for match in _WORLD_CALLS.finditer(source.bare):
        yield Problem("pure", source.path, line_of(source.bare, match.start()),
                      f"'{match.group(0).strip('( ')}' reads the world: pass the value in "
                      "(only io/ folders and main.cpp may read it)")
