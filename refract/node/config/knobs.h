// SPDX-License-Identifier: Apache-2.0
// The table of everything about a node that can be set. There are at most 40 knobs, ever.
//
// A knob's key is its name everywhere: `memory.limit` in the file is `--memory-limit` on the command line and
// REFRACT_MEMORY_LIMIT in the environment. Parsing, --help, --print-config and docs/configuration.md all come
// from this table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "refract/base/report.h"

namespace refract::node {

struct NodeConfig;

inline constexpr size_t kKnobsMax = 40;

enum class KnobType : uint8_t {
  kBytes,     // "512MiB"; a share of the memory that is available, "50%", where the knob says so
  kDuration,  // "50us"
  kInteger,
  kBool,
  kText,
};

// A value as it stands in the configuration. Bytes and durations (nanoseconds) lie in `number`, percents in
// `percent`, bools as 0 or 1.
struct KnobValue {
  int64_t number = 0;
  uint8_t percent = 0;    // 1 to 100: a share instead of a number.
  std::string text = {};  // kText only.
};

// Which part of a text is a path. On the command line and in the environment it may be relative to the
// working directory; a file is read by nodes that are started anywhere, and has absolute ones.
enum class PathForm : uint8_t { kNone, kPath, kPathOrNone, kBehindFile };

struct Knob {
  std::string_view key;
  KnobType type;
  std::string_view fallback;        // The default as one would write it; empty: see `fallback_words`.
  std::string_view fallback_words;  // The default in words, where it depends on the machine.
  int64_t least = 0;                // Of `number`, both inclusive.
  int64_t most = INT64_MAX;
  bool may_be_share = false;  // kBytes: percents are accepted.
  PathForm path = PathForm::kNone;
  // What it may be, for people: "error, warn, info or debug". Of a number: where `store` takes only some.
  std::string_view choices;
  std::string_view sentence;  // What it does; for --help and the documentation.
  // Stores a value that is in range; the sentence of a refusal says what was expected.
  Reported<> (*store)(NodeConfig& config, const KnobValue& value);
  std::string (*show)(const NodeConfig& config);  // The value that is in force, as one would write it.
};

[[nodiscard]] std::span<const Knob> knobs() noexcept;
[[nodiscard]] const Knob* find_knob(std::string_view key) noexcept;

[[nodiscard]] std::string flag_of(const Knob& knob);         // "--memory-limit"
[[nodiscard]] std::string environment_of(const Knob& knob);  // "REFRACT_MEMORY_LIMIT"
[[nodiscard]] std::string range_of(const Knob& knob);        // "1MiB to 64TiB", or the choices

// `text` with its path below `folder`, if it has one that is relative.
[[nodiscard]] std::string with_absolute_path(const Knob& knob, const std::string& text,
                                             const std::string& folder);

// Parses `text` as the knob's type and checks its range. The error's `what` says what was expected and what
// was found, without naming the place: the caller knows it.
[[nodiscard]] Reported<KnobValue> parse_value(const Knob& knob, std::string_view text);

// The nearest of `names` by edit distance, empty if none is near.
[[nodiscard]] std::string nearest_name(std::string_view name, std::span<const std::string> names);

// "64MiB", "1GiB", "100B": exactly this number, in the form that parse_value reads.
[[nodiscard]] std::string exact_bytes(uint64_t bytes);
[[nodiscard]] std::string exact_duration(uint64_t ns);

}  // namespace refract::node
