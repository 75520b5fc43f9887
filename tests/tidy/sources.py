"""The files of the project as the tidy rules see them: read once, literals blanked."""

import dataclasses
import functools
import pathlib
import re
import subprocess

CODE = {".h", ".cpp"}
TEXT = CODE | {".py", ".md", ".txt", ".cmake", ".proto", ".toml", ".sh", ".json", ".yml", ""}

_LITERALS = re.compile(
    r"""//[^\n]*|/\*.*?\*/"""
    r"""|(?:u8|[uUL])?R"(?P<fence>[^()\s\\]{0,16})\(.*?\)(?P=fence)\""""
    r"""|\b\d[\w']*"""
    r"""|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""", re.DOTALL)


def _blank(match):
    text = match.group(0)
    if text[0].isdigit():
        return text
    if text[0] == "/":
        return re.sub(r"[^\n]", " ", text)
    return '"' + re.sub(r"[^\n]", "_", text[1:-1]) + '"'


@dataclasses.dataclass(frozen=True)
class Problem:
    """One broken rule; `size` is what a size rule measured, for the ratchet."""
    rule: str
    path: str
    line: int
    sentence: str
    size: int = 0


@dataclasses.dataclass(frozen=True)
class Source:
    path: str
    text: str

    @property
    def suffix(self):
        return pathlib.PurePosixPath(self.path).suffix

    @property
    def folder(self):
        return str(pathlib.PurePosixPath(self.path).parent)

    @property
    def name(self):
        return pathlib.PurePosixPath(self.path).name

    @property
    def top(self):
        return self.path.split("/", 1)[0]

    @functools.cached_property
    def lines(self):
        return self.text.splitlines()

    @functools.cached_property
    def bare(self):
        """C++ without comments and with literals blanked; lines and columns stay where they are."""
        return _LITERALS.sub(_blank, self.text)

    @functools.cached_property
    def includes(self):
        """(line, spelling) of each include; the spelling keeps its quotes or angle brackets."""
        found = re.finditer(r'^[ \t]*#[ \t]*include[ \t]*(["<][^">\n]+[">])', self.text, re.M)
        return [(line_of(self.text, match.start(1)), match.group(1)) for match in found]


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


class Project:
    """All text files that git tracks or would track."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.sources = []
        for path in sorted(self._paths()):
            full = self.root / path
            if pathlib.PurePosixPath(path).suffix not in TEXT or not full.is_file():
                continue
            self.sources.append(Source(path, full.read_text(encoding="utf-8", errors="replace")))
        self.by_path = {source.path: source for source in self.sources}

    def _paths(self):
        listed = subprocess.run(
            ["git", "-C", str(self.root), "ls-files", "-z", "--cached", "--others",
             "--exclude-standard"], capture_output=True, check=False)
        if listed.returncode == 0:
            return {name for name in listed.stdout.decode().split("\0") if name}
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*")
                if path.is_file() and path.relative_to(self.root).parts[0] not in {"build", ".git"}}

    @functools.cached_property
    def code(self):
        return [source for source in self.sources if source.suffix in CODE]

    @functools.cached_property
    def folders(self):
        return {str(parent) for source in self.sources
                for parent in pathlib.PurePosixPath(source.path).parents}

    def exists(self, path):
        return (self.root / path).exists()


def is_shell_of_machine(source):
    """Hands: the only files that may touch the world."""
    return "/io/" in f"/{source.path}" or source.name == "main.cpp"
