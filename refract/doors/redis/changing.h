// SPDX-License-Identifier: Apache-2.0
// Changes of one key that depend on what it has: a command reads, computes, and commits on the version that
// it has read, again and again until no other writer was in between, or its time is over (docs/design/077,
// section 1: what a client does whose owner does not run the function for it).
//
// Threads: that of the store's door.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "refract/base/result.h"
#include "refract/client/reservation.h"
#include "refract/client/types.h"
#include "refract/kv/functions/functions.h"
#include "refract/runtime/task.h"

namespace refract::doors::redis {

struct Store;

// Learns what the store's time is (docs/design/028): a step of this host's wall clock changes no time to
// live. It is the same as long as the node runs. Until its server has answered it is the wall clock's.
[[nodiscard]] runtime::Task<> learn_store_time(Store& store);
// Now, by that time, or a moment earlier by as much as a message takes, and never later.
[[nodiscard]] uint64_t store_now_ns(const Store& store) noexcept;
// Redis counts milliseconds, and each of its moments is a whole one.
[[nodiscard]] uint64_t in_whole_ms(uint64_t wall_ns) noexcept;

// A part of the memory that a thread has for values which are being changed, old ones and new ones. Taken
// once for each attempt, so that no two wait for each other.
class ChangingRoom {
 public:
  // Short values are not counted, and what a change makes may be so much more.
  static constexpr size_t kCountedMin = size_t{64} * 1024;
  static constexpr size_t kChangingBytesMax = size_t{128} << 20;

  // The store outlives it.
  explicit ChangingRoom(Store& store) noexcept : store_(store) {}
  ChangingRoom(const ChangingRoom&) = delete;
  ChangingRoom& operator=(const ChangingRoom&) = delete;
  ~ChangingRoom();

  // Instead of what it has. Ends when there is so much; one that is longer than all there may be goes alone.
  [[nodiscard]] runtime::Task<> take(size_t bytes);
  [[nodiscard]] size_t bytes() const noexcept { return bytes_; }

 private:
  Store& store_;
  size_t bytes_ = 0;
};

// What became of a function, as of one that the owner runs: operation.h. The answer of an addition of floats
// is the new text, whatever its length.
struct Changed {
  Code code = Code::kOk;
  std::string answer = {};
};

// Runs it on what the key has, and commits its effect. Key and arguments live until the end.
[[nodiscard]] runtime::Task<Changed> change(Store& store, std::string_view key,
                                            kv::functions::Function function,
                                            std::span<const std::byte> arguments);

// What a command does with a key.
struct Wish {
  kv::functions::Effect effect = kv::functions::Effect::kNone;
  // Of kValue. `value` lives as long as the command; or it has so many bytes, and is made later.
  Bytes value = {};
  const Reservation* built_in = nullptr;  // The same value, where it was built in one.
  uint64_t made_bytes = 0;
  uint64_t expires_wall_ns = 0;  // 0: never.
};

// How a command decides. Each is called once for each attempt, of which the last one counts.
struct Change {
  std::function<Wish(const kv::functions::Before& before)> decide = {};
  // Writes the new value of a wish with `made_bytes`. Null: no wish has them.
  std::function<void(const kv::functions::Before& before, std::span<std::byte> value)> make = {};
  // Else decide() sees no value, and the key's is not read.
  bool reads_value = true;
};

// The same of what is no function. An error is one of the store's, as writes have them. `old` has the value
// before, if it was read; it is empty if there was none.
[[nodiscard]] runtime::Task<Result<>> change_by(Store& store, std::string_view key, const Change& change,
                                                std::string& old);

}  // namespace refract::doors::redis
