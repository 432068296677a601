// SPDX-License-Identifier: Apache-2.0
// A test program that aborts says in which test: with --gtest_brief only those that failed are named, and an
// exception that passes a joinable thread ends the program without a word of its own.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>

namespace refract::test {
namespace {

void say(const char* text) {
  (void)!::write(STDERR_FILENO, text, std::strlen(text));
}

void name_the_test(int signal) {
  if (const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info()) {
    say("aborted in ");
    say(test->test_suite_name());
    say(".");
    say(test->name());
    say("\n");
  }
  (void)::raise(signal);
}

// The handler is gone when it runs, so that the signal which it sends ends the program.
const bool is_heard = [] {
  struct sigaction action = {};
  action.sa_handler = name_the_test;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  return ::sigaction(SIGABRT, &action, nullptr) == 0;
}();

}  // namespace
}  // namespace refract::test
