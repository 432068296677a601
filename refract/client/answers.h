// SPDX-License-Identifier: Apache-2.0
// Between the public header's types and those of the layers below, for the blocking and the coroutine form.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "refract/client/client.h"
#include "refract/client/connection.h"
#include "refract/kv/direct_reader.h"
#include "refract/kv/layout.h"
#include "refract/kv/rpc_client.h"

namespace refract::client {

// Where a value goes: functions for the direct reader, ValueSink for the server's answers.
struct StringRoom {
  std::string* target;

  std::byte* operator()(uint64_t bytes) const {
    target->clear();
    // All of it is written before anybody looks. libstdc++ 12 tells the function the new capacity instead of
    // the length that was asked for.
    target->resize_and_overwrite(bytes, [bytes](char*, size_t) noexcept { return bytes; });
    return reinterpret_cast<std::byte*>(target->data());
  }
};

struct BufferRoom {
  std::span<std::byte> target;

  std::byte* operator()(uint64_t bytes) const noexcept {
    // An empty span's address may be null, which would mean that even an empty value does not fit.
    static std::byte nothing;
    if (bytes > target.size()) return nullptr;
    return target.data() == nullptr ? &nothing : target.data();
  }
};

template <typename Room>
class Sink final : public kv::ValueSink {
 public:
  explicit Sink(const Room& room) noexcept : room_(room) {}
  [[nodiscard]] std::byte* room(uint64_t bytes) override { return room_(bytes); }

 private:
  const Room& room_;
};

[[nodiscard]] inline Code check_key(const Bytes& key) noexcept {
  if (key.empty()) return Code::kInvalidArgument;
  return key.size() > kv::kKeyBytesMax ? Code::kTooLarge : Code::kOk;
}

[[nodiscard]] inline Got got_of(const kv::Found& found) noexcept {
  return {
      .version = found.version, .value_bytes = found.value_bytes, .expires_wall_ns = found.expires_wall_ns};
}
[[nodiscard]] inline Got got_of(const kv::Got& got) noexcept {
  return {.version = got.version, .value_bytes = got.value_bytes, .expires_wall_ns = got.expires_wall_ns};
}

[[nodiscard]] inline Code take(const Result<kv::Got>& answer, Got& got) noexcept {
  if (answer) got = got_of(*answer);
  return answer.code();
}

[[nodiscard]] inline kv::RpcPutOptions options_of(const PutOptions& options) noexcept {
  return {.if_absent = options.if_absent, .if_version = options.if_version, .ttl_ns = options.ttl_ns};
}

// One page by plain loads, in place of what `page` held.
[[nodiscard]] Code scan_directly(Connection::Reader& reader, uint64_t cursor, size_t keys_min,
                                 ScanPage& page);

[[nodiscard]] NodeStat stat_of(const kv::wire::StatReply& reply);

}  // namespace refract::client
