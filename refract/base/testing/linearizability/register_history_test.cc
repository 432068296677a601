// SPDX-License-Identifier: Apache-2.0
// Histories as Jepsen writes them, good and bad, judged as they are. All were written by hand; which they are
// follows from the definition, and stands in their names.
#include "refract/base/testing/linearizability/register_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "refract/base/testing/linearizability/checker.h"

namespace refract::linearizability {
namespace {

using testing::HasSubstr;

Judgement judge(std::string_view text, const RegisterOptions& options = {}) {
  const Reported<History> history = read_register_history(text, options);
  EXPECT_TRUE(history.has_value()) << history.error().to_string();
  return history ? check(*history) : Judgement{};
}

TEST(RegisterGood, etcd_lines_with_reads_writes_and_compare_and_set) {
  const Judgement judgement = judge(
      "INFO  jepsen.util - 0\t:invoke\t:write\t2\n"
      "INFO  jepsen.util - 1\t:invoke\t:read\tnil\n"
      "INFO  jepsen.util - 1\t:ok\t:read\tnil\n"
      "INFO  jepsen.util - 2\t:invoke\t:cas\t[2 4]\n"
      "INFO  jepsen.util - 0\t:ok\t:write\t2\n"
      "INFO  jepsen.util - 2\t:ok\t:cas\t[2 4]\n"
      "INFO  jepsen.util - 1\t:invoke\t:cas\t[2 3]\n"
      "INFO  jepsen.util - 1\t:fail\t:cas\t[2 3]\n"
      "INFO  jepsen.util - 0\t:invoke\t:read\tnil\n"
      "INFO  jepsen.util - 0\t:ok\t:read\t4\n");
  EXPECT_TRUE(judgement.is_good());
}

TEST(RegisterGood, operations_that_timed_out_take_effect_late_or_never) {
  EXPECT_TRUE(judge("{:process 0, :type :invoke, :f :write, :value 0}\n"
                    "{:process 0, :type :ok, :f :write, :value 0}\n"
                    "{:process 1, :type :invoke, :f :cas, :value [0 1]}\n"
                    "{:process 1, :type :info, :f :cas, :value [0 1], :error :timed-out}\n"
                    "{:process :nemesis, :type :info, :f :start, :value \"cut off n1, n2\"}\n"
                    "{:process 2, :type :invoke, :f :read, :value nil}\n"
                    "{:process 2, :type :ok, :f :read, :value 0}\n"
                    "{:process 2, :type :invoke, :f :read, :value nil}\n"
                    "{:process 2, :type :ok, :f :read, :value 1}\n")
                  .is_good());
  EXPECT_TRUE(judge("{:process 0, :type :invoke, :f :write, :value 7}\n"
                    "{:process 1, :type :invoke, :f :read, :value nil}\n"
                    "{:process 1, :type :ok, :f :read, :value nil}\n")
                  .is_good());
}

TEST(RegisterGood, a_value_may_come_again) {
  EXPECT_TRUE(judge("0 :invoke :write 1\n0 :ok :write 1\n"
                    "0 :invoke :write 2\n0 :ok :write 2\n"
                    "1 :invoke :write 1\n"
                    "2 :invoke :read nil\n2 :ok :read 1\n"
                    "2 :invoke :read nil\n1 :ok :write 1\n2 :ok :read 1\n")
                  .is_good());
}

TEST(RegisterGood, a_write_that_failed_never_happened) {
  EXPECT_TRUE(judge("0 :invoke :write 1\n0 :ok :write 1\n0 :invoke :write 2\n0 :fail :write 2\n"
                    "1 :invoke :read nil\n1 :ok :read 1\n")
                  .is_good());
}

TEST(RegisterBad, a_stale_read) {
  const Judgement judgement = judge(
      "0 :invoke :write 1\n0 :ok :write 1\n0 :invoke :write 2\n0 :ok :write 2\n"
      "1 :invoke :read nil\n1 :ok :read 1\n");
  ASSERT_TRUE(judgement.violation);
  EXPECT_EQ(judgement.violation->convicted, 2U);
}

TEST(RegisterBad, a_failed_write_that_is_read) {
  EXPECT_TRUE(judge("0 :invoke :write 1\n0 :fail :write 1\n1 :invoke :read nil\n1 :ok :read 1\n").violation);
}

// What etcd 0.4 did when its leader had just been deposed: two took the same value over.
TEST(RegisterBad, two_that_compare_the_same_value_and_both_set) {
  EXPECT_TRUE(judge("0 :invoke :write 0\n0 :ok :write 0\n"
                    "1 :invoke :cas [0 1]\n2 :invoke :cas [0 2]\n"
                    "1 :ok :cas [0 1]\n2 :ok :cas [0 2]\n")
                  .violation);
}

TEST(RegisterBad, a_timed_out_write_that_is_seen_and_then_not) {
  EXPECT_TRUE(judge("0 :invoke :write 0\n0 :ok :write 0\n"
                    "1 :invoke :write 3\n1 :info :write 3\n"
                    "2 :invoke :read nil\n2 :ok :read 3\n"
                    "2 :invoke :read nil\n2 :ok :read 0\n")
                  .violation);
}

TEST(RegisterBad, a_timed_out_compare_and_set_happens_once_and_where_its_value_was) {
  const std::string begin =
      "0 :invoke :write 0\n0 :ok :write 0\n1 :invoke :cas [0 1]\n1 :info :cas [0 1]\n"
      "0 :invoke :read nil\n0 :ok :read 1\n0 :invoke :write 0\n0 :ok :write 0\n";
  EXPECT_TRUE(judge(begin).is_good());
  EXPECT_TRUE(judge(begin + "0 :invoke :read nil\n0 :ok :read 1\n").violation) << "twice";
  EXPECT_TRUE(judge("0 :invoke :write 5\n0 :ok :write 5\n1 :invoke :cas [0 1]\n1 :info :cas [0 1]\n"
                    "0 :invoke :read nil\n0 :ok :read 1\n")
                  .violation)
      << "no client wrote 0";
}

TEST(RegisterBad, a_compare_and_set_that_failed_though_its_value_was_there_all_the_time) {
  const std::string text =
      "0 :invoke :write 4\n0 :ok :write 4\n1 :invoke :cas [4 5]\n1 :fail :cas [4 5]\n"
      "0 :invoke :read nil\n0 :ok :read 4\n";
  EXPECT_TRUE(judge(text).violation);
  EXPECT_TRUE(judge(text, {.failed_cas_tells_value = false}).is_good());
  EXPECT_TRUE(judge("{:process 0, :type :invoke, :f :write, :value 4}\n"
                    "{:process 0, :type :ok, :f :write, :value 4}\n"
                    "{:process 1, :type :invoke, :f :cas, :value [4 5]}\n"
                    "{:process 1, :type :fail, :f :cas, :value [4 5], :error :connection-refused}\n")
                  .is_good());
}

TEST(RegisterText, an_initial_value_stands_before_everything) {
  const std::string text = "0 :invoke :cas [0 1]\n0 :ok :cas [0 1]\n";
  EXPECT_TRUE(judge(text).violation);
  EXPECT_TRUE(judge(text, {.initial = "0"}).is_good());
}

TEST(RegisterText, what_is_no_history_is_named_with_its_line) {
  const auto wrong = [](std::string_view text) {
    const Reported<History> history = read_register_history(text);
    return history ? std::string() : history.error().what;
  };
  EXPECT_THAT(wrong("0 :invoke :read nil\n0 :ok\n"), HasSubstr("line 2"));
  EXPECT_THAT(wrong("0 :ok :read 1\n"), HasSubstr("has not begun"));
  EXPECT_THAT(wrong("0 :invoke :append 1\n"), HasSubstr("':append'"));
  EXPECT_THAT(wrong("0 :invoke :cas 1\n"), HasSubstr("[old new]"));
  EXPECT_THAT(wrong("0 :invoke :write nil\n"), HasSubstr("nil"));
  EXPECT_THAT(wrong("0 :begin :write 1\n"), HasSubstr("':begin'"));
  EXPECT_THAT(wrong("0 :invoke :read nil\n0 :invoke :read nil\n"), HasSubstr("within another"));
}

}  // namespace
}  // namespace refract::linearizability
