// SPDX-License-Identifier: Apache-2.0
// Between the public header's types and those of the layers below, for the blocking and the coroutine form.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "refract/base/units.h"
#include "refract/client/async_client.h"
#include "refract/client/paths/connection.h"
#include "refract/client/paths/peers.h"
#include "refract/client/reservation.h"
#include "refract/client/types.h"
#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/direct/direct_reader.h"
#include "refract/kv/layout/hashed_key.h"
#include "refract/kv/layout/layout.h"

namespace refract::client {

// Where a value goes: functions for the direct reader, ValueSink for the server's answers.
struct StringRoom {
  std::string* target;

  [[gnu::returns_nonnull]] std::byte* operator()(uint64_t bytes) const {
    // Of the same length nothing is stored but the value: the terminator's address would come out of a cache
    // miss, and such a store holds up all later loads (kv/direct/held_bytes.h).
    if (target->size() != bytes) {
      if (bytes >= kLongBytes && bytes > target->capacity()) [[unlikely]]
        return long_room(*target, bytes);
      target->clear();
      // All of it is written before it is read. libstdc++ 12 tells the function the new capacity instead
      // of the length that was asked for.
      target->resize_and_overwrite(bytes, [bytes](char*, size_t) noexcept { return bytes; });
    }
    return reinterpret_cast<std::byte*>(target->data());
  }

 private:
  // From here on fresh memory is mostly the kernel's own, without pages, and has better large ones.
  static constexpr uint64_t kLongBytes = 4 * kMiB;
  [[nodiscard]] static std::byte* long_room(std::string& target, uint64_t bytes);
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

[[nodiscard, gnu::noinline]] std::byte* make_room(std::string& target, uint64_t bytes);

inline std::byte* Room::operator()(uint64_t bytes) const {
  if (string == nullptr) return BufferRoom{buffer}(bytes);
  if (string->size() == bytes) return reinterpret_cast<std::byte*>(string->data());
  return make_room(*string, bytes);
}

template <typename Room>
class Sink final : public kv::ValueSink {
 public:
  explicit Sink(const Room& room) noexcept : room_(room) {}
  [[nodiscard]] std::byte* room(uint64_t bytes) override { return room_(bytes); }

 private:
  const Room& room_;
};

[[nodiscard]] inline Result<> result_of(Code code) {
  return code == Code::kOk ? Result<>() : fail(code);
}

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

[[nodiscard]] inline kv::RpcPutOptions options_of(const PutOptions& options,
                                                  const kv::RpcAttempt& attempt) noexcept {
  return {.if_absent = options.if_absent,
          .if_version = options.if_version,
          .ttl_ns = options.ttl_ns,
          .attempt = attempt,
          .shared = options.built_in == nullptr ? nullptr : options.built_in->buffer(),
          .front = options.front};
}

// kInvalidArgument, kTooLarge, or kOk.
[[nodiscard]] inline Code check_put(const Bytes& key, const PutOptions& options) noexcept {
  if (options.if_absent && options.if_version != 0) return Code::kInvalidArgument;
  if (options.built_in != nullptr && !options.front.empty()) return Code::kInvalidArgument;
  return check_key(key);
}

[[nodiscard]] inline bool is_conditional(const PutOptions& options) noexcept {
  return options.if_absent || options.if_version != 0;
}
[[nodiscard]] inline bool needs_identity(const PutOptions& options) noexcept {
  return options.request.client != 0 || is_conditional(options);
}

// One write on its way to an outcome: its identity, if it has one, and when it was first sent. A conditional
// write has one of its own at least: its own effect would otherwise fail its condition when it is repeated.
class Write {
 public:
  Write(Peers& peers, const RequestId& request, bool is_conditional) {
    if (request.client != 0 || is_conditional) identify(peers, request);
  }

  [[nodiscard]] const kv::RpcAttempt& attempt() const noexcept { return attempt_; }
  [[nodiscard]] bool has_identity() const noexcept { return attempt_.request.client != 0; }
  // Whether it goes again: it surely did nothing, or it will be recognised where the connection was lost.
  [[nodiscard]] bool may_go_again(const Connection& connection, Code code) const noexcept {
    if (code == Code::kUnavailable) return true;
    return code == Code::kIndeterminate && has_identity() && connection.is_session_closed();
  }
  // What an attempt that ended with `code` and was the last one says of the whole: what was once under way
  // stays in doubt, although its repetition was not sent.
  [[nodiscard]] Code outcome(Code code) const noexcept {
    return code == Code::kUnavailable && attempt_.first_sent_ns != 0 ? Code::kIndeterminate : code;
  }
  // After each attempt. `begun_ns`: not later than it was sent.
  void note(Code code, uint64_t begun_ns) noexcept;
  // When no try is left, for repetitions by the program.
  void end(Peers& peers, Code code) const;

 private:
  void identify(Peers& peers, const RequestId& request);

  kv::RpcAttempt attempt_;
  bool is_programs_ = false;  // The identity is, so that the program can repeat the write.
};

// How many of some keys are there up to the first that is not: asked in rounds, each twice as long as the
// last one, so that no more messages are sent than twice what is needed.
class PrefixRounds {
 public:
  explicit PrefixRounds(std::span<const Bytes> keys) noexcept : keys_(keys) {}

  [[nodiscard]] bool is_over() const noexcept { return is_over_ || found_ == keys_.size(); }
  // What is to be looked at.
  [[nodiscard]] std::span<ExistsItem> next() {
    items_.clear();
    for (const Bytes& key : keys_.subspan(found_, std::min(width_, keys_.size() - found_))) {
      items_.push_back({.key = key});
    }
    width_ *= 2;
    return items_;
  }
  // What has come of it.
  void take() noexcept {
    for (const ExistsItem& item : items_) {
      is_over_ = !item.result;
      if (is_over_) code_ = item.result.code() == Code::kNotFound ? Code::kOk : item.result.code();
      if (is_over_) return;
      ++found_;
    }
  }
  [[nodiscard]] Result<size_t> result() const noexcept {
    return code_ == Code::kOk ? Result<size_t>(found_) : fail(code_);
  }

 private:
  std::span<const Bytes> keys_;
  std::vector<ExistsItem> items_;
  size_t width_ = 64;
  size_t found_ = 0;
  bool is_over_ = false;
  Code code_ = Code::kOk;
};

// REQUIRES, for these: the connection has a reader.
template <typename ValueRoom>
[[nodiscard]] Code read_value(Connection& connection, const kv::HashedKey& key, const ValueRoom& room,
                              Got& got) {
  Connection::Reader& reader = *connection.reader();
  const kv::Found found = reader.get(key.bytes(), key.hash(reader.hash_seed()), room);
  got = got_of(found);
  return found.code;
}
[[nodiscard]] inline Code look_at_entry(Connection& connection, const kv::HashedKey& key, Got& got) {
  Connection::Reader& reader = *connection.reader();
  const kv::Found found = reader.look(key.bytes(), key.hash(reader.hash_seed()));
  got = got_of(found);
  return found.code;
}
// One page by plain loads, in place of what `page` held.
[[nodiscard]] Code scan_directly(Connection::Reader& reader, uint64_t cursor, size_t keys_min,
                                 ScanPage& page);

[[nodiscard]] NodeStat stat_of(const kv::wire::StatReply& reply);
void add_to(NodeStat& sum, const NodeStat& part);

}  // namespace refract::client
