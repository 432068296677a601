// SPDX-License-Identifier: Apache-2.0
// The table of all that a shard tells of itself: name, unit, kind and a sentence for each number and text.
// What is told over the wire, in JSON, in sums over shards and in docs/formats/observe.md comes from its
// rows. A new number is a member of its struct (state.h, data_state.h) and a row here; a new counter is a row
// of kCounters.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "refract/node/observe/state.h"

namespace refract::observe {

enum class Unit : uint8_t { kNone, kBytes, kNanoseconds };

enum class Kind : uint8_t {
  kTotal,    // Counts from the server's start on, and only grows.
  kNow,      // True at the moment of the telling.
  kLargest,  // Likewise; of several shards the largest counts, not the sum.
  kFact,     // Stays, or names something; it has no sum.
};

struct Metric {
  std::string_view name;
  Kind kind = Kind::kNow;
  Unit unit = Unit::kNone;
  std::string_view sentence;
};

template <typename State>
struct Row {
  Metric metric;
  std::variant<uint64_t State::*, uint32_t State::*, std::string State::*> member;
};

// The rows of a struct. Nested structs, lists and histograms have no rows: state.cc puts them together.
template <typename State>
[[nodiscard]] std::span<const Row<State>> rows() noexcept;
template <>
[[nodiscard]] std::span<const Row<ShardState>> rows() noexcept;
template <>
[[nodiscard]] std::span<const Row<MemoryState>> rows() noexcept;
template <>
[[nodiscard]] std::span<const Row<EntriesState>> rows() noexcept;
template <>
[[nodiscard]] std::span<const Row<DataState>> rows() noexcept;
template <>
[[nodiscard]] std::span<const Row<LogStatus>> rows() noexcept;
template <>
[[nodiscard]] std::span<const Row<SnapshotStatus>> rows() noexcept;
template <>
[[nodiscard]] std::span<const Row<RecoveryStatus>> rows() noexcept;
template <>
[[nodiscard]] std::span<const Row<ConnectionState>> rows() noexcept;

// The counters that a node of ours tells by name; a hosted store may tell others.
[[nodiscard]] std::span<const Metric> counters() noexcept;

// Of two shards as one: totals and what is true now are added, facts stay as they are in `sum`.
void add(MemoryState& sum, const MemoryState& one);
void add(EntriesState& sum, const EntriesState& one);

// All rows as tables, as docs/formats/observe.md has them.
[[nodiscard]] std::string metrics_page();

}  // namespace refract::observe
