#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of tidy.py: for each check, code that it refuses and code that it leaves alone."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tidy  # noqa: E402  The folder must be on the path first.
from tidy.affected import affected  # noqa: E402  The folder must be on the path first.
from tidy.alone import to_compile  # noqa: E402
from tidy.units import readings  # noqa: E402


def found(check, files):
    """What `check` says of `files`, as (path, line) pairs."""
    return [(item.path, item.line) for item in check(tidy.Tree(files))]


def kinds(files, exceptions=()):
    """The names of all checks that complain about `files`."""
    return {item.check for item in tidy.run(tidy.Tree(files), exceptions)}


class HeadersAlone(unittest.TestCase):
    HEADERS = {"refract/a.h": '#pragma once\n#include "refract/b.h"\n',
               "refract/b.h": "#pragma once\n"}

    def compiled(self, path, text):
        return to_compile(tidy.Tree({**self.HEADERS, path: text}))

    def test_what_stands_first_in_a_source_or_in_its_first_header_is_shown_by_the_build(self):
        self.assertEqual(self.compiled("refract/a.cc", '// Licence\n\n#include "refract/a.h"\n'), [])
        self.assertEqual(self.compiled("refract/b.cc", '#include "refract/b.h"\n'), ["refract/a.h"])

    def test_what_has_anything_before_it_is_not(self):
        for before in ("#include <vector>\n", "#define X\n", "#if X\n", "int x;\n"):
            source = before + '#include "refract/a.h"\n'
            self.assertEqual(self.compiled("refract/a.cc", source), ["refract/a.h"])

    def test_what_begins_with_precompiled_headers_shows_nothing(self):
        for path in ("refract/a_test.cc", "tests/a.cc", "refract/a_fuzz.cc", "examples/a.cc"):
            self.assertEqual(self.compiled(path, '#include "refract/a.h"\n'), ["refract/a.h"])

    def test_of_headers_that_include_each_other_first_one_is_compiled(self):
        files = {"refract/a.h": '#include "refract/b.h"\n', "refract/b.h": '#include "refract/a.h"\n'}
        self.assertEqual(len(to_compile(tidy.Tree(files))), 1)


class Affected(unittest.TestCase):
    TREE = tidy.Tree({"refract/a.h": "", "refract/b.h": '#include "refract/a.h"\n',
                      "refract/a.cc": '#include "refract/a.h"\n', "apps/b.cc": '#include "refract/b.h"\n',
                      "apps/c.cc": "", "docs/a.md": ""})

    def test_a_source_concerns_itself(self):
        self.assertEqual(affected(self.TREE, ["refract/a.cc"]), ["refract/a.cc"])

    def test_a_header_concerns_all_that_include_it_through_others(self):
        self.assertEqual(affected(self.TREE, ["refract/b.h"]), ["apps/b.cc"])
        self.assertEqual(affected(self.TREE, ["refract/a.h"]), ["apps/b.cc", "refract/a.cc"])

    def test_a_header_that_is_gone_concerns_who_still_includes_it(self):
        self.assertEqual(affected(tidy.Tree({"refract/a.cc": '#include "refract/gone.h"\n'}),
                                  ["refract/gone.h", "refract/gone.cc"]), ["refract/a.cc"])

    def test_a_page_concerns_no_source_and_the_checks_or_flags_concern_all(self):
        self.assertEqual(affected(self.TREE, ["docs/a.md", ""]), [])
        for path in (".clang-tidy", "CMakePresets.json", "CMakeLists.txt"):
            self.assertIsNone(affected(self.TREE, ["apps/c.cc", path]))

    def test_the_flags_of_a_folder_concern_what_lies_in_it(self):
        self.assertEqual(affected(self.TREE, ["apps/CMakeLists.txt"]), ["apps/b.cc", "apps/c.cc"])


class Readings(unittest.TestCase):
    UNITS = {"unit_0.cxx": ["a.cc", "b.cc", "c.cc", "d.cc"], "unit_1.cxx": ["e.cc", "f.cc"]}

    def read(self, wanted):
        """(what is read with all checks, what is compiled alone)"""
        rows = readings(wanted, self.UNITS)
        alone = [path for _, checks, path in rows if "clang-diagnostic" in checks]
        return [path for _, _, path in rows if path not in alone], alone

    def test_many_of_a_unit_are_read_together_and_compiled_alone(self):
        self.assertEqual(self.read(["a.cc", "b.cc", "d.cc"]), (["unit_0.cxx"], ["a.cc", "b.cc", "d.cc"]))

    def test_few_of_a_unit_and_what_is_in_none_are_read_alone(self):
        self.assertEqual(self.read(["a.cc", "d.cc", "g.cc"]), (["a.cc", "d.cc", "g.cc"], []))
        self.assertEqual(self.read(["g.cc", "a.cc", "b.cc", "c.cc"]),
                         (["unit_0.cxx", "g.cc"], ["a.cc", "b.cc", "c.cc"]))


class HeavyHeaders(unittest.TestCase):
    def refused(self, files):
        return found(tidy.check_heavy_headers, files)

    def test_one_source_may_include_what_each_includer_pays_for(self):
        self.assertEqual(self.refused({"refract/a.cc": "#include <CLI/CLI.hpp>\n",
                                       "refract/b.cc": "#include <toml++/toml.h>\n",
                                       "bench/c.cc": "#include <nlohmann/json_fwd.hpp>\n"}), [])

    def test_a_second_source_may_not(self):
        for header in ("CLI/CLI.hpp", "toml++/toml.h"):
            text = f"int a;\n#include <{header}>\n"
            self.assertEqual(self.refused({"refract/a.cc": text, "bench/b.cc": text}), [("refract/a.cc", 2)])

    def test_json_may_be_in_eight_sources_tests_among_them(self):
        files = {f"bench/{name}_test.cc": "#include <nlohmann/json.hpp>\n" for name in "abcdefgh"}
        self.assertEqual(self.refused(files), [])
        files["refract/z.cc"] = "#include <nlohmann/json.hpp>\n"
        self.assertEqual(self.refused(files), [("refract/z.cc", 1)])

    def test_a_header_may_not_at_all(self):
        self.assertEqual(self.refused({"bench/a.h": "#include <nlohmann/json.hpp>\n"}), [("bench/a.h", 1)])


class Expectations(unittest.TestCase):
    def refused(self, body, before=""):
        text = f"{before}TEST(A, claims_something) {{\n{body}\n}}\n"
        return bool(found(tidy.check_expectations, {"refract/kv/a_test.cc": text}))

    def test_a_test_that_expects_nothing_is_refused(self):
        self.assertTrue(self.refused("  shard.run();"))
        self.assertTrue(self.refused("  // EXPECT_TRUE(x)\n  f();", "void f() {\n  g();\n}\n"))

    def test_a_claim_may_stand_in_the_body_or_in_a_function_that_it_leads_to(self):
        for body in ("  EXPECT_EQ(1, 1);", "  REFRACT_CHECK(x);", "  expect_refused(x);", "  ADD_FAILURE();"):
            self.assertFalse(self.refused(body), body)
        before = "void inner() {\n  ASSERT_TRUE(x);\n}\nvoid outer(int n) {\n  inner();\n}\n"
        self.assertFalse(self.refused("  outer(1);", before))


class Layers(unittest.TestCase):
    def refused(self, path, included):
        return found(tidy.check_layers, {path: f'#include "{included}"\n'})

    def test_a_layer_may_include_what_stands_below_it(self):
        self.assertEqual(self.refused("refract/kv/owner/table/table.cc", "refract/memory/writer.h"), [])
        self.assertEqual(self.refused("refract/kv/owner/table/table.cc",
                                      "refract/kv/owner/table/table.h"), [])

    def test_a_layer_must_not_include_what_stands_above_it(self):
        self.assertEqual(self.refused("refract/memory/a.cc", "refract/kv/owner/table/table.h"),
                         [("refract/memory/a.cc", 1)])
        self.assertTrue(self.refused("refract/memory/a_test.cc", "refract/kv/owner/table/table.h"))
        self.assertTrue(self.refused("refract/kv/a_test.cc", "tests/campaign/rival.h"))

    def test_sisters_do_not_know_each_other(self):
        self.assertTrue(self.refused("refract/kv/a.cc", "refract/block/table.h"))
        self.assertTrue(self.refused("refract/block/a.cc", "refract/kv/owner/table/table.h"))

    def test_a_provider_does_not_know_another(self):
        self.assertTrue(self.refused("refract/fabric/shm/a.cc", "refract/fabric/sim/world.h"))
        self.assertEqual(self.refused("refract/fabric/shm/a.cc", "refract/fabric/channel.h"), [])

    def test_only_the_registry_of_fabric_names_providers(self):
        self.assertTrue(self.refused("refract/fabric/routing.cc", "refract/fabric/shm/shm.h"))
        self.assertEqual(self.refused("refract/fabric/registry.cc", "refract/fabric/shm/shm.h"), [])

    def test_a_store_uses_the_contract_and_not_a_provider(self):
        self.assertTrue(self.refused("refract/kv/a.cc", "refract/fabric/shm/shm.h"))
        self.assertEqual(self.refused("refract/kv/a_test.cc", "refract/fabric/sim/world.h"), [])
        self.assertEqual(self.refused("refract/client/a.cc", "refract/fabric/shm/shm.h"), [])

    def room_refused(self, path, included):
        return found(tidy.check_rooms, {path: f'#include "{included}"\n'})

    def test_a_room_knows_only_those_that_it_may_know(self):
        self.assertEqual(self.room_refused("refract/kv/chains/a.cc", "refract/kv/calls/b.h"), [])
        self.assertEqual(self.room_refused("refract/kv/chains/a.cc", "refract/memory/heap.h"), [])
        self.assertTrue(self.room_refused("refract/kv/calls/a.cc", "refract/kv/chains/b.h"))
        self.assertTrue(self.room_refused("refract/kv/calls/a.cc", "refract/kv/owner/table/b.h"))
        self.assertTrue(self.room_refused("refract/kv/designs/pilaf/a.cc", "refract/kv/owner/table/b.h"))
        self.assertEqual(self.room_refused("refract/kv/calls/a_test.cc", "refract/kv/owner/table/b.h"), [])

    def test_bench_has_rooms_too(self):
        self.assertEqual(self.room_refused("bench/suites/a.cc", "bench/bars/b.h"), [])
        self.assertTrue(self.room_refused("bench/bars/a.cc", "bench/suites/b.h"))
        self.assertTrue(self.room_refused("bench/load/a.h", "bench/sides/b.h"))
        self.assertEqual(self.room_refused("bench/main.cc", "bench/suites/b.h"), [])
        self.assertEqual(self.room_refused("bench/measure/machine.cc", "bench/commit.h"), [])

    def test_only_tests_include_what_tests_use(self):
        self.assertTrue(self.room_refused("refract/kv/calls/a.cc", "refract/kv/testing/b.h"))
        self.assertTrue(self.room_refused("apps/refract/a.cc", "refract/base/testing/b.h"))
        self.assertEqual(self.room_refused("refract/kv/calls/a_test.cc", "refract/kv/testing/b.h"), [])
        self.assertEqual(self.room_refused("refract/kv/testing/a.h", "refract/base/testing/b.h"), [])

    def test_an_unknown_folder_is_no_layer(self):
        self.assertTrue(self.refused("refract/stuff/a.cc", "refract/base/units.h"))

    def test_includes_of_ours_are_written_from_the_root(self):
        self.assertTrue(self.refused("refract/kv/a.cc", "table.h"))

    def test_apps_and_tests_may_include_all(self):
        self.assertEqual(self.refused("apps/refractd.cc", "refract/node/keeper/keeper.h"), [])


class Sizes(unittest.TestCase):
    def test_a_line_has_at_most_110_characters(self):
        self.assertEqual(found(tidy.check_line_length, {"a.h": "x" * 110 + "\n"}), [])
        self.assertEqual(found(tidy.check_line_length, {"a.h": "\n" + "x" * 111 + "\n"}), [("a.h", 2)])

    def test_a_header_has_at_most_250_lines_and_a_source_800(self):
        self.assertEqual(found(tidy.check_file_length, {"a.h": "\n" * 250, "a.cc": "\n" * 800}), [])
        self.assertEqual(found(tidy.check_file_length, {"a.h": "\n" * 251, "a.cc": "\n" * 801}),
                         [("a.cc", 801), ("a.h", 251)])

    def test_a_source_over_500_lines_gets_a_note(self):
        self.assertEqual(len(list(tidy.notes(tidy.Tree({"a.cc": "\n" * 501, "b.cc": "\n" * 500})))), 1)

    def long_after(self, head, tail=""):
        text = head + " {\n" + "  step();\n" * 70 + "}" + tail + "\n"
        return found(tidy.check_function_length, {"a.cc": text})

    def test_a_function_of_any_shape_has_at_most_70_lines(self):
        for head in ("int f()", "void A::f(int x) const noexcept", "A::A(int x) : a_{x}, b_(x)",
                     "template <typename T> requires(sizeof(T) > 4) T f(T x)", "auto f() -> std::vector<int>",
                     "TEST(Suite, name)", "namespace refract {\nvoid f()", "class A {\n public:\n  void f()",
                     "bool A::operator==(const A& other) const", "void f(int x = 3, A a = {})",
                     "struct stat read_stat(int fd)", 'extern "C" int f(const void* data)',
                     "const auto f = [](int x)"):
            self.assertEqual(len(self.long_after(head)), 1, head)

    def test_types_namespaces_and_tables_may_be_long(self):
        for head in ("namespace refract", "class A final : public B", "struct alignas(64) A",
                     "enum class A : int", "constexpr int kTable[] =", "class [[nodiscard]] A"):
            self.assertEqual(self.long_after(head, ";"), [], head)

    def test_seventy_lines_are_allowed(self):
        text = "int f() {\n" + "  g();\n" * 68 + "}\n"
        self.assertEqual(found(tidy.check_function_length, {"a.cc": text}), [])

    def test_braces_in_literals_and_comments_do_not_count(self):
        text = "int f() {\n  g('{', \"{{\"); // {\n}\n" + "int h();\n" * 80
        self.assertEqual(found(tidy.check_function_length, {"a.cc": text}), [])


class Banned(unittest.TestCase):
    BAD = {
        "os-clock": "clock_gettime(CLOCK_MONOTONIC, &now);", "sleep": "usleep(5);", "rand": "int x = rand();",
        "thread": "std::thread t(f);", "shared-ptr": "std::shared_ptr<int> p;",
        "recursive-mutex": "std::recursive_mutex m;", "volatile": "volatile int x;", "assert": "assert(x);",
        "throw": "throw 3;",
    }

    def test_each_banned_word_is_found_and_named(self):
        for check, line in self.BAD.items():
            items = list(tidy.check_banned(tidy.Tree({"refract/kv/a.cc": line})))
            self.assertEqual([item.check for item in items], [check], line)

    def test_more_spellings_are_found(self):
        for line in ("std::chrono::steady_clock::now();", "std::this_thread::sleep_for(x);", "std::async(f);",
                     "std::random_device d;", "std::jthread t;", "try { f(); } catch (...) {}",
                     "std::make_shared<int>();"):
            self.assertTrue(found(tidy.check_banned, {"refract/node/a.cc": line}), line)

    def test_comments_and_strings_may_say_the_words(self):
        text = '// We never throw, sleep(1) or assert(x).\nauto s = "volatile rand()";\n/* std::thread */\n'
        self.assertEqual(found(tidy.check_banned, {"refract/kv/a.cc": text}), [])

    def test_similar_words_are_innocent(self):
        text = ("static_assert(x); asm volatile(\"\"); shard.sleep_for(1); brand(); "
                "std::thread::id i; try_lock();")
        self.assertEqual(found(tidy.check_banned, {"refract/kv/a.cc": text}), [])

    def test_threads_and_clocks_are_at_home_in_base_runtime_providers_and_tests(self):
        for path in ("refract/base/clock.cc", "refract/runtime/shard.cc", "refract/fabric/shm/wait.cc",
                     "refract/kv/a_test.cc", "tests/a.cc", "bench/a.cc"):
            text = "std::thread t; clock_gettime(0, &now);"
            self.assertEqual(found(tidy.check_banned, {path: text}), [], path)
        self.assertTrue(found(tidy.check_banned, {"refract/fabric/registry.cc": "std::thread t;"}))

    def test_throwing_is_banned_in_base_too(self):
        self.assertTrue(found(tidy.check_banned, {"refract/base/a.cc": "throw 3;"}))

    def test_a_reason_on_the_line_or_above_allows_it(self):
        bad = "void f() {\n  try {\n  }\n}\n"
        self.assertIn("throw", kinds({"refract/node/a.cc": bad}))
        allowed = bad.replace("  try", "  // tidy: allow(throw) the parser of toml++ throws.\n  try")
        self.assertNotIn("throw", kinds({"refract/node/a.cc": allowed}))
        unreasoned = allowed.replace(") the parser of toml++ throws.", ")")
        self.assertIn("throw", kinds({"refract/node/a.cc": unreasoned}))

    def test_json_is_written_by_no_format_string(self):
        for line in (r'out += fmt::format("{{\"a\": 1}}");', r'out += ", \"calls\": {";',
                     r'f("\"a\": {}", a);', r'f("\"{}\": \"{}\"", a, b);', 'f(R"({{"file": {}}})", a);'):
            self.assertTrue(found(tidy.check_json_format, {"apps/refract/a.cc": line}), line)
        for line in (r'{"a", "expected \":\""},', r'say("{{}} {}", a);', 'R"({"key": "...", "value": ...})"'):
            self.assertEqual(found(tidy.check_json_format, {"apps/refract/a.cc": line}), [], line)
        test = {"refract/a_test.cc": r'EXPECT_EQ(f(), "{{\"a\": {}}}");'}
        self.assertEqual(found(tidy.check_json_format, test), [])

    def test_using_namespace_is_for_sources_only(self):
        text = "using namespace std;\n"
        self.assertEqual(found(tidy.check_using_namespace, {"a.h": text, "a.cc": text}), [("a.h", 1)])

    def test_feature_ifdefs_belong_to_registry_and_providers(self):
        text = "#ifdef HAVE_VERBS\n#endif\n"
        self.assertTrue(found(tidy.check_feature_ifdef, {"refract/kv/a.cc": text}))
        for path in ("refract/fabric/registry.cc", "refract/fabric/verbs/a.cc", "refract/base/check.h"):
            self.assertEqual(found(tidy.check_feature_ifdef, {path: text}), [], path)

    def test_a_sanitized_test_may_be_shorter(self):
        files = {"refract/kv/a_test.cc": "#if defined(__SANITIZE_THREAD__)\n#endif\n"}
        self.assertEqual(found(tidy.check_feature_ifdef, files), [])

    def test_native_code_is_refused(self):
        files = {"CMakeLists.txt": "add_compile_options(-march=native)\n"}
        self.assertTrue(found(tidy.check_native_code, files))


class Coroutines(unittest.TestCase):
    def refused(self, body):
        return bool(found(tidy.check_co_await, {"a.cc": "Task<> f() {\n" + body + "\n}\n"}))

    def test_co_await_in_an_argument_list_is_found(self):
        for body in ("use(co_await read());", "ASSERT_TRUE(co_await read());",
                     "x = a.b(1, (co_await read()) + 1);", "co_return pair(1, co_await read());"):
            self.assertTrue(self.refused(body), body)

    def test_co_await_in_a_conditional_expression_is_found(self):
        for body in ("x = a ? co_await b() : 0;", "x = co_await b() ? 1 : 0;", "x = a ? 0 : co_await b();"):
            self.assertTrue(self.refused(body), body)

    def test_plain_uses_pass(self):
        for body in ("const auto x = co_await read(a, b);", "co_await pause();", "co_return co_await f();",
                     "if (co_await ready()) return;", "const int x = (co_await read()).size();",
                     "while (!(co_await done())) {}", "const int y = a ? 1 : 2; co_await f();",
                     "static_cast<void>(co_await read());", "for (;;) { co_await step(); }"):
            self.assertFalse(self.refused(body), body)

    def lambda_refused(self, text):
        return bool(found(tidy.check_lambda_coroutine, {"a.cc": text}))

    def test_a_capturing_lambda_coroutine_is_found(self):
        for text in ("auto f = [&] { co_await g(); };",
                     "spawn([this, x]() -> Task<int> { co_return x; });",
                     "spawn([&world](int a) mutable noexcept -> Task<> {\n  if (a) { co_await g(); }\n});"):
            self.assertTrue(self.lambda_refused(text), text)

    def test_other_lambdas_pass(self):
        for text in ("spawn([](World& world) -> Task<> { co_await world.g(); });",
                     "sort([&](int a) { return a; });", "table[x] = [] { };",
                     "[[nodiscard]] Task<> f() { co_await g(); }",
                     "auto f = [&] { spawn([](int a) -> Task<> { co_await g(a); }, 1); };"):
            self.assertFalse(self.lambda_refused(text), text)


class Files(unittest.TestCase):
    def test_a_folder_has_at_most_45_files(self):
        files = {f"refract/kv/a{i}.h": "" for i in range(45)} | {f"docs/design/{i}.md": "" for i in range(60)}
        self.assertEqual(found(tidy.check_folder_size, files), [])
        files["refract/kv/b.h"] = ""
        self.assertEqual(found(tidy.check_folder_size, files), [("refract/kv", 1)])

    def test_a_header_that_nothing_includes_is_dead(self):
        files = {"refract/kv/a.h": "", "refract/kv/b.h": "",
                 "refract/kv/b.cc": '#include "refract/kv/b.h"\n',
                 "refract/kv/CMakeLists.txt": "refract_layer(kv)\n"}
        self.assertEqual(found(tidy.check_dead_files, files), [("refract/kv/a.h", 1)])

    def test_a_source_that_no_target_takes_is_dead(self):
        files = {"refract/kv/designs/a.cc": "", "refract/kv/CMakeLists.txt": "refract_layer(kv)\n",
                 "tests/a_test.cc": "", "tests/b.cc": "", "tests/CMakeLists.txt": "file(GLOB t *_test.cc)\n"}
        self.assertEqual(found(tidy.check_dead_files, files),
                         [("refract/kv/designs/a.cc", 1), ("tests/b.cc", 1)])

    def test_a_source_in_a_room_lives(self):
        files = {"refract/kv/calls/a.cc": "", "refract/kv/owner/table/a.cc": "", "refract/kv/cals/a.cc": "",
                 "refract/kv/CMakeLists.txt": "refract_layer(kv ROOMS calls\n  owner/table\n  LINKS x)\n"}
        self.assertEqual(found(tidy.check_dead_files, files), [("refract/kv/cals/a.cc", 1)])

    def test_a_source_named_by_a_folder_above_lives(self):
        files = {"apps/records/a.cc": "", "apps/CMakeLists.txt": "add_executable(x records/a.cc)\n"}
        self.assertEqual(found(tidy.check_dead_files, files), [])

    def test_the_licence_comes_first(self):
        line = "SPDX-License-Identifier: Apache-2.0\n"
        good = {"a.cc": "// " + line, "a.py": "#!/usr/bin/env python3\n# " + line, "Makefile": "# " + line}
        self.assertEqual(found(tidy.check_licence_line, good), [])
        bad = {"a.cc": "\n// " + line, "a.cmake": "", "run": "#!/bin/sh\n"}
        self.assertEqual(len(found(tidy.check_licence_line, bad)), 3)

    def test_a_header_is_included_once(self):
        self.assertEqual(found(tidy.check_pragma_once, {"a.h": "// #pragma once\n", "b.h": "#pragma once\n"}),
                         [("a.h", 1)])

    def test_names_that_say_nothing_are_refused(self):
        for path in ("refract/common/a.h", "refract/kv/util.h", "tests/helpers.cc", "refract/misc/a.h"):
            self.assertTrue(found(tidy.check_folder_names, {path: ""}), path)
        self.assertEqual(found(tidy.check_folder_names, {"refract/kv/utility_cost.h": ""}), [])

    def test_a_test_is_named_after_its_claim(self):
        text = "TEST(Get, TestGet2) {}\nTEST(Get, works) {}\nTEST(Get, get_never_returns_a_torn_value) {}\n"
        self.assertEqual(found(tidy.check_test_names, {"a_test.cc": text}),
                         [("a_test.cc", 1), ("a_test.cc", 2)])

    def test_a_code_that_no_test_expects_is_found(self):
        files = {"refract/base/codes.def": 'REFRACT_CODE(kOk, 0, "ok")\nREFRACT_CODE(kTorn, 1, "torn")\n',
                 "refract/base/result_test.cc": "EXPECT_EQ(code, Code::kOk);\n"}
        self.assertEqual(found(tidy.check_codes, files), [("refract/base/codes.def", 2)])

    def test_public_headers_reach_base_and_client_only(self):
        text = '#include "refract/kv/owner/table/table.h"\n#include <fmt/core.h>\n#include <span>\n'
        files = {"refract/client/client.h": text, "refract/kv/owner/table/table.h": ""}
        self.assertEqual(sorted(found(tidy.check_public_headers, files)),
                         [("refract/client/client.h", 2), ("refract/kv/owner/table/table.h", 1)])

    def test_a_link_does_not_know_what_is_said_over_it(self):
        text = '#include "refract/kv/layout/wire.h"\n'
        files = {"refract/client/link/link.h": text, "refract/client/paths/connection.h": text}
        self.assertEqual(found(tidy.check_layers, files), [("refract/client/link/link.h", 1)])

    def test_the_asynchronous_one_reaches_runtime_too(self):
        text = '#include "refract/runtime/shard.h"\n'
        for header, faults in (("refract/client/async_client.h", []),
                               ("refract/client/verified.h", [("refract/runtime/shard.h", 1)])):
            files = {header: text, "refract/runtime/shard.h": ""}
            self.assertEqual(found(tidy.check_public_headers, files), faults)


class Words(unittest.TestCase):
    def refused(self, line, path="a.cc"):
        return bool(found(tidy.check_words, {path: line + "\n"}))

    def test_reminders_need_a_number(self):
        for word in ("TO" + "DO: later", "FIX" + "ME"):  # Split, or tidy would find them here.
            self.assertTrue(self.refused("// " + word))
        self.assertFalse(self.refused("// TODO(#12): when epochs exist"))

    def test_paths_of_one_machine_are_refused_everywhere(self):
        for line in ("see /" + "work/place/README", "in /tmp/" + "build-x/bin", "as iss" + "ue 2 says",
                     "/ro" + "ot/file"):
            self.assertTrue(self.refused(line, "docs/a.md"), line)
        for line in ("docs/work/flow", "https://x.org/work/a", "an issue with 2 parts", "~/work/x"):
            self.assertFalse(self.refused(line, "docs/a.md"), line)

    def test_ornaments_are_refused(self):
        self.assertTrue(self.refused("// ========"))
        self.assertTrue(self.refused("// ---- part two ----"))
        self.assertFalse(self.refused("// A sentence -- with dashes."))

    def test_one_word_for_one_thing(self):
        self.assertTrue(found(tidy.check_glossary, {"a.h": "class MemoryRegion;\n"}))
        self.assertEqual(found(tidy.check_glossary, {"a.h": "class Region;\n"}), [])

    def test_words_that_hide_what_acts_are_refused(self):
        def refused(text, path="a.h"):
            violations = tidy.check_plain(tidy.Tree({path: text}))
            return [(item.line, item.message.split("'")[1]) for item in violations]

        self.assertEqual(refused("// Fine.\n// Some" + "body waits.\n"), [(2, "Some" + "body")])
        self.assertEqual(refused("It go" + "es on here.\n", "docs/a.md"), [(1, "go" + "es on")])
        self.assertEqual(refused("int i;  // Looks on" + "ce\n        // more.\n"), [(1, "on" + "ce more")])
        self.assertEqual(refused("# Tried in\n# va" + "in.\n", "a.py"), [(1, "in va" + "in")])
        self.assertEqual(refused("log_warn(\"an" + "ew\");\n", "a.cc"), [(1, "an" + "ew")])
        self.assertEqual(refused("int begins_an" + "ew = 0;  // Once. More.\n"), [])

    def test_links_lead_somewhere(self):
        text = "# One thing\n[x](b.md) [y](b.md#two) [z](c.md) [w](https://x.org) [v](#one-thing)\n"
        files = {"docs/a.md": text, "docs/b.md": "text\n"}
        messages = [item.message for item in tidy.check_links(tidy.Tree(files))]
        self.assertEqual(len(messages), 2, messages)

    def test_pages_that_comments_name_exist(self):
        files = {"a.h": "// See docs/design/003.\n// See docs/design/004.\n// docs/GONE.md\n",
                 "docs/design/003-memory-model.md": ""}
        self.assertEqual(found(tidy.check_links, files), [("a.h", 2), ("a.h", 3)])

    def test_files_that_documents_name_exist(self):
        text = "Read `refract/kv/owner/table/table.h` and `refract/kv/gone.h`.\n```\nrefract/x.h\n```\n"
        files = {"README.md": text, "refract/kv/owner/table/table.h": ""}
        self.assertEqual(found(tidy.check_links, files), [("README.md", 1)])


SPDX = "SPDX-License-Identifier: Apache-2.0\n"


class Exceptions(unittest.TestCase):
    def test_the_table_excuses_one_check_in_one_place(self):
        files = {"refract/node/a.cc": "// " + SPDX + "volatile int x;\n",
                 "refract/node/CMakeLists.txt": "# " + SPDX + "refract_layer(node)\n"}
        self.assertEqual(kinds(files), {"volatile"})
        self.assertEqual(kinds(files, [("volatile", "refract/node/a.cc", "reason")]), set())
        self.assertEqual(kinds(files, [("volatile", "refract/node/", "reason")]), set())

    def test_an_exception_that_excuses_nothing_is_reported(self):
        files = {"refract/node/a.cc": "// " + SPDX,
                 "refract/node/CMakeLists.txt": "# " + SPDX + "refract_layer(node)\n"}
        self.assertEqual(kinds(files, [("volatile", "refract/node/a.cc", "reason")]), {"exception"})

    def test_every_exception_gives_a_reason(self):
        for check, where, reason in tidy.EXCEPTIONS:
            self.assertGreater(len(reason), 20, (check, where))

    def test_every_check_says_what_it_checks(self):
        for check in tidy.CHECKS:
            self.assertRegex(check.__doc__, r"^[a-z, -]+: ")


if __name__ == "__main__":
    unittest.main()
