// SPDX-License-Identifier: Apache-2.0
// The client's end of numbered writes alone: what it is to send, and answers of any kind.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "refract/client/numbered/numbered_writes.h"

namespace refract::test {

class NumberedWritesTest : public testing::Test {
 protected:
  static constexpr uint32_t kFunctions = 7;
  static constexpr std::array<std::byte, 4'096> kBytes{};

  // Notes what it is told.
  struct Write final : client::NumberedWrite {
    using client::NumberedWrite::NumberedWrite;
    void told(const client::NumberedOutcome& told_outcome) noexcept override { outcome = told_outcome; }
    [[nodiscard]] std::optional<Code> code() const {
      return outcome ? std::optional(outcome->code) : std::nullopt;
    }

    std::optional<client::NumberedOutcome> outcome;
  };
  [[nodiscard]] static kv::wire::TakenAnswer answer_of(Code code, uint16_t place = kv::wire::kPlaceUnknown,
                                                       uint8_t flags = 0) {
    kv::wire::TakenAnswer answer{.answer = {}, .code = code, .bytes = {}};
    answer.answer.place = place;
    answer.answer.flags = flags;
    return answer;
  }

  ~NumberedWritesTest() override {
    for (auto& write : writes_) machine.leave(*write);
  }

  void connect(const client::NumberedWrites::Limits& limits = {.body_bytes_max = 8'192,
                                                               .answer_bytes_max = 8'192}) {
    machine.connected(limits);
  }
  // Up to the session.
  void open(uint32_t functions = kFunctions) {
    const client::NumberedCall* const call = machine.next();
    ASSERT_NE(call, nullptr);
    ASSERT_NE(call->what, client::NumberedCall::What::kOperations);
    machine.opened(call->place, {.id = 5, .secret = {}, .functions = functions, .reserved = 0});
  }
  Write& add(client::NumberedOperation operation = {}) {
    if (operation.key.empty()) operation.key = std::span(kBytes).first(8);
    writes_.push_back(std::make_unique<Write>(operation));
    EXPECT_EQ(machine.add(*writes_.back()), Code::kOk);
    return *writes_.back();
  }
  Write& add_of_tag(uint32_t tag) { return add({.tag = tag}); }
  // All at once, as they are.
  [[nodiscard]] std::vector<client::NumberedCall> calls() {
    std::vector<client::NumberedCall> calls;
    while (const client::NumberedCall* const call = machine.next()) calls.push_back(*call);
    return calls;
  }
  void answer(const client::NumberedCall& call, std::vector<kv::wire::TakenAnswer> answers) {
    EXPECT_TRUE(machine.answered(call.place, answers));
  }
  // Each with a record of its own, and the same code.
  void answer_all(const client::NumberedCall& call, Code code) {
    std::vector<kv::wire::TakenAnswer> answers;
    answers.reserve(call.count);
    for (size_t i = 0; i < call.count; ++i) {
      answers.push_back(answer_of(code, code == Code::kOverloaded ? kv::wire::kPlaceUnknown : next_place_++));
    }
    answer(call, std::move(answers));
  }

  client::NumberedWrites machine{kFunctions};

 private:
  std::vector<std::unique_ptr<Write>> writes_;
  uint16_t next_place_ = 0;
};

}  // namespace refract::test
