// SPDX-License-Identifier: Apache-2.0
// What traces look like: the calls that a node recorded, as lines or for a trace viewer, and the looks of one
// get at a node's memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/refract/top/tracing_memory.h"

#include "refract/node/observe/watcher.h"

namespace refract::cli {

// What one shard recorded.
struct ShardRecording {
  uint32_t shard = 0;
  observe::Recording recording;
};

// A line a call, in the order in which they were taken, with the events of the time between, and a summary.
[[nodiscard]] std::string trace_lines(std::span<const ShardRecording> recordings,
                                      std::span<const observe::Event> events);

// The Trace Event Format that chrome://tracing and Perfetto read: a row a shard, a span a batch, and in it a
// span a call; calls that are answered later are spans of their own.
[[nodiscard]] std::string trace_for_viewer(std::span<const ShardRecording> recordings,
                                           std::span<const observe::Event> events);

// What a get looked at, a line each, with what it learnt from it. `hash` is the key's.
struct GetTrace {
  uint64_t hash = 0;
  uint64_t begun_ns = 0;
  std::vector<MemoryLook> looks;
  uint64_t directory = 0;  // Where the table's directory lies.
  uint64_t directory_words = 0;
};
[[nodiscard]] std::string look_lines(const GetTrace& trace);

// "put", "observe", "method 77".
[[nodiscard]] std::string method_text(uint16_t method);
// "850 ns", "4.2 us", "18.0 ms".
[[nodiscard]] std::string span_text(uint64_t ns);

}  // namespace refract::cli
