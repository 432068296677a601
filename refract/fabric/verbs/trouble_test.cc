// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/verbs/trouble.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>

#include "refract/base/units.h"

namespace refract::fabric::verbs {
namespace {

bool says(const Report& report, std::string_view words) {
  return report.to_string().find(words) != std::string::npos;
}

constexpr LockLimit kSmall{.bytes = 8 * kMiB, .used_bytes = 3 * kMiB, .is_unbound = false};
constexpr LockLimit kUnbound{.bytes = 8 * kMiB, .used_bytes = 3 * kMiB, .is_unbound = true};

TEST(VerbsTrouble, a_registration_beyond_the_limit_names_limit_use_need_and_remedy) {
  const Report why = explain(
      {.step = Step::kRegister, .error = ENOMEM, .what = "rxe0 cannot register it", .pin_bytes = 6 * kMiB},
      kSmall);
  EXPECT_EQ(why.code, Code::kNoSpace);
  for (const char* const words :
       {"rxe0 cannot register it", "RLIMIT_MEMLOCK", "8 MiB", "3 MiB", "6 MiB", "LimitMEMLOCK=infinity"}) {
    EXPECT_TRUE(says(why, words)) << words << " in " << why.to_string();
  }
}

// What fits the limit, or is not bound by it, was refused by the device.
TEST(VerbsTrouble, the_limit_is_not_blamed_for_what_it_allows) {
  const Trouble fits{.step = Step::kRegister, .error = ENOMEM, .what = "x", .pin_bytes = 5 * kMiB};
  EXPECT_FALSE(says(explain(fits, kSmall), "RLIMIT_MEMLOCK"));
  const Trouble large{.step = Step::kRegister, .error = ENOMEM, .what = "x", .pin_bytes = kGiB};
  EXPECT_FALSE(says(explain(large, kUnbound), "RLIMIT_MEMLOCK"));
  const Trouble other{.step = Step::kReadyToReceive, .error = ENOMEM, .what = "x"};
  EXPECT_FALSE(says(explain(other, kSmall), "RLIMIT_MEMLOCK"));
  EXPECT_EQ(explain(fits, kSmall).code, Code::kNoSpace);
}

TEST(VerbsTrouble, a_limit_of_nothing_is_told_as_such) {
  const Trouble none{.step = Step::kRegister, .error = EPERM, .what = "x", .pin_bytes = 1};
  EXPECT_TRUE(says(explain(none, {.bytes = 0, .used_bytes = 0, .is_unbound = false}), "RLIMIT_MEMLOCK"));
}

// An errno value alone is no help: whatever a step may end in, there are words and advice.
TEST(VerbsTrouble, every_error_of_every_step_is_a_sentence_with_advice) {
  for (uint32_t step = 0; step <= static_cast<uint32_t>(Step::kRegister); ++step) {
    for (int error = 0; error < 134; ++error) {
      const Report why =
          explain({.step = static_cast<Step>(step), .error = error, .what = "rxe0 cannot"}, kSmall);
      EXPECT_TRUE(why.what.starts_with("rxe0 cannot: ")) << why.what;
      EXPECT_NE(why.code, Code::kOk);
      EXPECT_TRUE(why.next.ends_with("refract doctor says more")) << why.next;
      EXPECT_GT(why.what.size(), errno_text(error).size() + 20) << why.what;
    }
  }
}

TEST(VerbsTrouble, the_same_error_has_another_cause_in_another_step) {
  const auto why = [](Step step, int error) {
    return explain({.step = step, .error = error, .what = "x"}, kUnbound).what;
  };
  EXPECT_NE(why(Step::kReadyToReceive, EINVAL), why(Step::kQueuePair, EINVAL));
  EXPECT_NE(why(Step::kQueuePair, EINVAL), why(Step::kRegister, EINVAL));
  EXPECT_NE(why(Step::kOpenDevice, EACCES), why(Step::kRegister, EACCES));
}

TEST(VerbsTrouble, the_limit_is_read_from_this_process) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before), 0);
  rlimit lower = before;
  lower.rlim_cur = 64 * kKiB;
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &lower), 0);
  EXPECT_EQ(lock_limit().bytes, 64 * kKiB);
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &before), 0);
  EXPECT_TRUE(before.rlim_cur != RLIM_INFINITY || lock_limit().is_unbound);
}

}  // namespace
}  // namespace refract::fabric::verbs
