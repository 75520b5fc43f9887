"""Each tidy rule finds what it is for, and lets the right way pass."""

import pathlib
import tempfile
import unittest

import rules_size
import tidy
from sources import Source

GOOD = {
    "README.md": "# small\n\nOne file: `base/a.h`.\n",
    "base/README.md": "# base\n\n- `a.{h,cpp}`: everything.\n",
    "base/CMakeLists.txt": "add_library(base a.cpp)\n",
    "base/a.h": "// What it is for.\n#pragma once\n\nint answer();\n",
    "base/a.cpp": '#include "base/a.h"\n\nint answer() { return 42; }\n',
}


class Rules(unittest.TestCase):
    def rules_broken_by(self, changed, allowed=()):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**GOOD, **changed}.items():
                file = pathlib.Path(root, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            found, _ = tidy.problems_of(root, allowed)
            return [problem.rule for problem in found]

    def test_a_tidy_tree_has_no_problem(self):
        self.assertEqual(self.rules_broken_by({}), [])

    def test_an_arrow_against_the_order_of_folders_is_found(self):
        text = '// Upwards.\n#pragma once\n#include "rendezvous/x.h"\n'
        self.assertIn("arrow", self.rules_broken_by({"base/b.h": text}))

    def test_only_hands_touch_the_world(self):
        text = "// Reads a socket.\n#pragma once\n#include <sys/socket.h>\n"
        self.assertEqual(self.rules_broken_by({"base/b.h": text}), ["pure"])
        self.assertEqual(self.rules_broken_by({"base/io/b.h": text}), [])

    def test_a_clock_read_by_a_machine_is_found_but_not_in_a_comment(self):
        body = "// Why.\n#pragma once\n{} auto t = std::chrono::steady_clock::now();\n"
        self.assertEqual(self.rules_broken_by({"base/b.h": body.format("")}), ["pure"])
        self.assertEqual(self.rules_broken_by({"base/b.h": body.format("//")}), [])

    def test_braces_and_brackets_after_co_await_are_found(self):
        for wait in ("co_await f(Aggregate{1})", "co_await g([x] { return x; })",
                     "if (co_await h()) {\n    k()"):
            text = f"// Waits.\n#pragma once\ninline A f() {{\n  {wait};\n}}\n"
            self.assertEqual(self.rules_broken_by({"base/io/b.h": text}), ["co_await"], wait)
        text = "// Waits.\n#pragma once\ninline A f() {\n  const auto x = co_await g(y);\n}\n"
        self.assertEqual(self.rules_broken_by({"base/io/b.h": text}), [])

    def test_banned_calls_are_found_but_not_in_text(self):
        text = '// Runs.\n#pragma once\ninline void f() {{ {}; }}\n'
        for call in ("system(c)", "std::system(c)", "std::rand()", "t.detach()", "usleep(3)"):
            broken = self.rules_broken_by({"base/b.h": text.format(call)})
            self.assertEqual(broken, ["banned"], call)
        for call in ('g("system(c)")', "std::system_category()", "file.system(c)"):
            self.assertEqual(self.rules_broken_by({"base/b.h": text.format(call)}), [], call)

    def test_how_files_open_is_checked(self):
        self.assertEqual(self.rules_broken_by({"base/b.h": "#pragma once\n"}), ["purpose"])
        self.assertEqual(self.rules_broken_by({"base/b.h": "// Why.\nint x;\n"}), ["pragma"])
        text = '#include <map>\n#include "base/a.h"\n'
        self.assertEqual(self.rules_broken_by({"base/a.cpp": text}), ["own_header"])

    def test_unfinished_work_and_foreign_words_are_found(self):
        for word, rule in (("TO" "DO", "unfinished"), ("see is" "sue 12", "foreign")):
            text = f"// Why.\n#pragma once\n// {word}\n"
            self.assertEqual(self.rules_broken_by({"base/b.h": text}), [rule])

    def test_build_and_tree_are_compared_both_ways(self):
        lost = "// Nobody builds it.\nint x;\n"
        self.assertEqual(self.rules_broken_by({"base/b.cpp": lost}), ["build"])
        text = "add_library(base a.cpp gone.cpp)\n"
        self.assertEqual(self.rules_broken_by({"base/CMakeLists.txt": text}), ["build"])

    def test_documents_are_compared_with_the_tree(self):
        self.assertEqual(self.rules_broken_by({"base/README.md": "# base\n`b.h`\n"}), ["dead_name"])
        self.assertEqual(self.rules_broken_by({"docs/x.md": "# x\n[y](y.md)\n"}), ["dead_name"])
        self.assertEqual(self.rules_broken_by({"docs/x.md": "# x\n# y\n"}), ["title"])
        text = "// Why.\n#pragma once\n"
        self.assertEqual(self.rules_broken_by({"protocol/b.h": text}), ["readme"])

    def test_states_and_their_document_are_compared_both_ways(self):
        code = "// Why.\n#pragma once\nusing Event = std::variant<Came, Went>;\n"
        document = "# States\n\n## `base`\n\n| event | when |\n|---|---|\n| `Came` | first |\n"
        went = "| `Went` | last |\n"
        files = {"base/event.h": code, "docs/states.md": document + went}
        self.assertEqual(self.rules_broken_by(files), [])
        self.assertEqual(self.rules_broken_by({**files, "docs/states.md": document}), ["states"])
        files["docs/states.md"] += went.replace("Went", "Stayed")
        self.assertEqual(self.rules_broken_by(files), ["states"])

    def test_an_exception_is_a_ratchet(self):
        long_file = GOOD["base/a.h"] + "\n" * 500
        entry = {"rule": "file", "file": "base/a.h", "limit": 504, "reason": "a table"}
        self.assertEqual(self.rules_broken_by({"base/a.h": long_file}), ["file"])
        self.assertEqual(self.rules_broken_by({"base/a.h": long_file}, [entry]), [])
        self.assertEqual(self.rules_broken_by({"base/a.h": long_file + "\n"}, [entry]), ["file"])
        self.assertEqual(self.rules_broken_by({}, [entry]), ["allowed"])

    def test_functions_are_measured_from_signature_to_brace(self):
        text = """namespace x {
template <class T>
struct A : B<T> {
  A(int a,
    int b)
      : a_{a}, b_{b} {
    if (a) {
      go();
    }
  }
  int a_ = 0;
};
const int kTable[] = {
    1,
};
Result<int> f(const char* text = "}") {
  return {};
}
}
"""
        found = list(rules_size.functions(Source("x.cpp", text).bare))
        self.assertEqual(found, [(4, 10), (16, 18)])


if __name__ == "__main__":
    unittest.main()
