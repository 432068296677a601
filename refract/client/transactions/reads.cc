// SPDX-License-Identifier: Apache-2.0
#include "refract/client/transactions/reads.h"

#include <utility>

namespace refract::client {

std::vector<GetItem> to_ask(const txn::Changes& changes, std::span<const GetItem> items) {
  std::vector<GetItem> asked;
  asked.reserve(items.size());
  for (const GetItem& item : items) {
    if (!changes.own_value(item.key.text())) asked.push_back({.key = item.key});
  }
  return asked;
}

void take_reads(txn::Changes& changes, std::span<GetItem> asked, std::span<GetItem> items) {
  auto answer = asked.begin();
  for (GetItem& item : items) {
    Result<Got> got = Got{};
    auto value = changes.own_value(item.key.text());
    if (!value) {
      got = answer->result;
      value =
          changes.take_read(item.key.text(), got.code(), got ? got->version : 0, std::move(answer->value));
      ++answer;
    }
    if (*value) {
      item.value = **std::move(value);
      item.result = Got{.version = got ? got->version : 0, .value_bytes = item.value.size()};
    } else {
      item.result = fail(value->error());
    }
  }
}

}  // namespace refract::client
