// SPDX-License-Identifier: Apache-2.0
// Changes of one key that depend on what it has: a command reads, computes, and commits on the version that
// it has read, again and again until no other writer was in between, or its time is over (docs/design/077,
// section 1: what a client does whose owner does not run the function for it).
//
// Of an addition the owner computes the sum, and nothing is read.
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

// How long it is until then; a moment that is over is a nanosecond away. 0 of 0, which is never.
[[nodiscard]] uint64_t ttl_until(const Store& store, uint64_t expires_wall_ns) noexcept;

// Memory of changes that are under way: old values and new ones. Further ones wait.
inline constexpr size_t kChangingBytesMax = size_t{128} << 20;

// What a row said.
struct Changed {
  Code code = Code::kOk;  // kInvalidArgument: the answer is a Refusal. kTooLarge. Nothing has changed then.
  std::string answer = {};
  // REQUIRES: an answer of 8 B; likewise the other.
  [[nodiscard]] int64_t number() const noexcept;
  [[nodiscard]] kv::functions::Refusal refusal() const noexcept;
};

// Runs the row on what the key has, and commits its effect. An error is one of the store's, as writes have
// them: of kIndeterminate it is not known whether the key has changed. The answer of an addition of floats is
// the new text, whatever its length. Key and arguments live until the end.
[[nodiscard]] runtime::Task<Result<Changed>> change(Store& store, std::string_view key,
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
  // `before` has its moment of expiry in whole milliseconds.
  std::function<Wish(const kv::functions::Before& before)> decide = {};
  // Writes the new value of a wish with `made_bytes`. Null: no wish has them.
  std::function<void(const kv::functions::Before& before, std::span<std::byte> value)> make = {};
  // Else decide() sees no value, and the key's is not read.
  bool reads_value = true;
};

// The same of what is no row. `old` has the value before, if it was read; it is empty if there was none.
[[nodiscard]] runtime::Task<Result<>> change_by(Store& store, std::string_view key, const Change& change,
                                                std::string& old);

}  // namespace refract::doors::redis
