// SPDX-License-Identifier: Apache-2.0
// What the tests of failures have in common: one serving end and two callers that read without pause, one
// over the cable between the machine's two devices and one, the bystander, within the device of the serving
// end. Whatever is done to the first, the bystander must not be told of anything, and read on.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>

#include "tests/verbs/caller.h"

namespace refract::fabric::verbs {

inline constexpr std::chrono::seconds kPatience{40};
// So many READs of the bystander, while something is broken, are enough to say that it still works.
inline constexpr uint64_t kSomeReads = 20;

inline void run(const std::string& command) {
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

[[nodiscard]] inline bool says(const Report& report, std::string_view words) {
  return report.to_string().find(words) != std::string::npos;
}

class VerbsFailure : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::access("/sys/class/net/veth0", F_OK), 0) << "the devices are not joined by a cable";
    ASSERT_TRUE(victim_.connect() && bystander_.connect());
    ASSERT_TRUE(settle([this] { return victim_.good() > 0 && bystander_.good() > 0; })) << "they do not open";
  }
  void TearDown() override {
    EXPECT_EQ(victim_.wrong(), 0u);
    EXPECT_EQ(bystander_.wrong(), 0u);
  }

  virtual void turn() {
    turn_callers();
    serving_.turn();
  }
  void turn_callers() {
    victim_.turn();
    bystander_.turn();
  }
  [[nodiscard]] bool settle(const std::function<bool()>& done) {
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    while (!done()) {
      if (std::chrono::steady_clock::now() > give_up) return false;
      turn();
    }
    return true;
  }
  // Until then it connects again and again; `victim` is refused.
  [[nodiscard]] bool is_refused(Caller& victim) {
    return settle([&] {
      (void)victim.connect();
      return victim.refused() != Code::kOk;
    });
  }
  // As a client does whose channel has ended: it connects again, until that is possible.
  [[nodiscard]] bool is_back(Caller& caller) {
    const uint64_t before = caller.good();
    return settle([&] {
      (void)caller.connect();
      return caller.good() > before + kSomeReads;
    });
  }
  void bystander_goes_on() {
    const uint64_t before = bystander_.good();
    EXPECT_TRUE(settle([&] { return bystander_.good() > before + kSomeReads; }));
    EXPECT_EQ(bystander_.losses(), 0u);
    EXPECT_TRUE(bystander_.failures().empty());
  }

  Serving serving_{wish_on("veth1")};
  Caller victim_{serving_, wish_on("veth0")};
  Caller bystander_{serving_, wish_on("veth1")};
};

}  // namespace refract::fabric::verbs
