// SPDX-License-Identifier: Apache-2.0
// `refract-bench kv`: load on a node, and how long its answers take.
#pragma once

#include <cstdint>
#include <string>

#include "refract/base/histogram.h"
#include "refract/base/report.h"

namespace refract::bench {

enum class Mix : uint8_t { kGet, kPut, kMixed };  // kMixed: half of each.

struct KvLoad {
  std::string socket_path;  // Empty: a private node, loaded first.
  std::string node_program;
  uint64_t keys = 1'000'000;
  uint64_t value_bytes = 64;
  Mix mix = Mix::kGet;
  double skew = 0;     // Of a Zipf law, below 1; 0: uniform.
  uint64_t depth = 1;  // Operations handed over together.
  double seconds = 5;
  uint64_t operations = 0;  // Stop after so many; 0: only the time ends the run.
  // So many operations are due a second, and latency counts from when one was due; 0: as fast as possible,
  // and latency counts from the call.
  uint64_t rate = 0;
};

struct KvLoadResult {
  uint64_t operations = 0;
  uint64_t missing = 0;  // Gets of keys that the node does not hold.
  double seconds = 0;
  Histogram latency_ns;  // Of operations at depth 1, of whole groups beyond.
};

[[nodiscard]] Reported<KvLoadResult> run_kv_load(const KvLoad& load);
[[nodiscard]] std::string lines_of(const KvLoad& load, const KvLoadResult& result);
[[nodiscard]] std::string json_of(const KvLoad& load, const KvLoadResult& result);

}  // namespace refract::bench
