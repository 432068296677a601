// SPDX-License-Identifier: Apache-2.0
// Calls of numbered writes and their replies as they travel between a client's end and a model of its owner,
// out of the reach of both. Operations are known by their argument.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/result.h"
#include "refract/client/numbered/numbered_call.h"
#include "refract/kv/layout/numbered_wire.h"

namespace refract::test {

// A call as it travels.
struct TravellingItem {
  uint64_t number = 0;
  uint32_t tag = 0;
  uint64_t id = 0;  // 0: it withdraws.
  bool is_condition = false;
  uint64_t draft = 0;  // Of what is committed.
};
struct TravellingCall {
  int connection = 0;
  client::NumberedCall::What what{};
  bool may_wait = false;
  uint32_t place = 0;
  std::vector<TravellingItem> items;
  std::vector<kv::wire::Acknowledged> acknowledged;
  kv::wire::SessionRequest session{};

  [[nodiscard]] static TravellingCall of(const client::NumberedCall& call, int connection) {
    TravellingCall message{.connection = connection,
                           .what = call.what,
                           .may_wait = call.may_wait,
                           .place = call.place,
                           .items = {},
                           .acknowledged = {call.acknowledged().begin(), call.acknowledged().end()}};
    message.items.reserve(call.count);
    for (const auto& item : call.items()) {
      const client::NumberedOperation* const operation = item.operation;
      const bool is_condition =
          operation != nullptr && operation->kind == kv::wire::OperationKind::kCondition;
      message.items.push_back({.number = item.number,
                               .tag = item.tag,
                               .id = operation != nullptr ? operation->argument : 0,
                               .is_condition = is_condition,
                               .draft = item.draft});
    }
    return message;
  }

  // What no call may be; empty: nothing.
  [[nodiscard]] std::string trouble() const {
    if (may_wait && items.size() != 1) return "a call that may wait has several operations";
    if (items.empty()) return "a call without operations";
    const auto is_wrong = [](const TravellingItem& item) { return item.is_condition != (item.number == 0); };
    return std::ranges::any_of(items, is_wrong) ? "what has a number is no condition" : "";
  }
};
struct TravellingReply {
  int connection = 0;
  uint32_t place = 0;
  std::optional<kv::wire::SessionReply> session = {};
  Code code = Code::kOk;
  std::vector<kv::wire::TakenAnswer> answers = {};

  // Without a record.
  [[nodiscard]] static kv::wire::TakenAnswer plain(Code code) {
    kv::wire::TakenAnswer answer{.answer = {}, .code = code, .bytes = {}};
    answer.answer.place = kv::wire::kPlaceUnknown;
    return answer;
  }
};

}  // namespace refract::test
