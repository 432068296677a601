// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/layout/wire.h"

namespace refract::kv::wire {

std::string_view name(Method method) noexcept {
  // Behind those that are counted.
  static constexpr std::array<std::string_view, kMethods> kNames = {
      "",          "ping",      "get",        "put",         "erase",      "exists",     "scan",     "stat",
      "put_begin", "put_piece", "put_commit", "put_abandon", "view_piece", "view_close", "stage_key"};
  if (method == Method::kGetMany) return "get_many";
  if (method == Method::kPutMany) return "put_many";
  if (method == Method::kBatch) return "batch";
  if (method == Method::kBatchPiece) return "batch_piece";
  const auto number = static_cast<size_t>(method);
  return number < kNames.size() ? kNames[number] : std::string_view();
}

}  // namespace refract::kv::wire
