// SPDX-License-Identifier: Apache-2.0
// A private node with a log, whose folder outlives it: to be snapshot, stopped and started again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bench/bars/bars.h"
#include "bench/measure/beside.h"
#include "bench/sides/private_node.h"

#include "refract/client/client.h"

namespace refract::bench {

class DurableNode {
 public:
  struct Options {
    uint64_t entries = 0;  // Of entry.h; the node has room for them and a quarter more.
    bool snapshots_at_full_speed = false;
    bool is_bound = true;
  };
  // On an empty folder.
  [[nodiscard]] static Reported<DurableNode> start(const BarRun& run, const Options& options);
  // With the entries put.
  [[nodiscard]] static Reported<DurableNode> start_loaded(const BarRun& run, const Options& options);

  // From the start of the program on the folder as it is, to the first right get; seconds.
  [[nodiscard]] Reported<double> start_again(uint64_t index);
  [[nodiscard]] Reported<double> start_again(std::string_view key, std::string_view value);
  // SIGTERM, and waits for the end.
  void stop();

  // `refract snapshot` from its start to its end.
  [[nodiscard]] Reported<test::Process> begin_snapshot() const;
  [[nodiscard]] Reported<> end_snapshot(test::Process& snapshot) const;
  [[nodiscard]] Reported<double> snapshot_seconds() const;

  // The youngest snapshot; empty: there is none.
  [[nodiscard]] std::string snapshot_path() const;
  [[nodiscard]] std::string folder() const { return folder_.path() + "/data"; }
  [[nodiscard]] const PrivateNode& node() const noexcept { return *node_; }

 private:
  DurableNode(test::TemporaryFolder folder, NodeOptions options) noexcept
      : folder_(std::move(folder)), options_(std::move(options)) {}

  test::TemporaryFolder folder_;
  NodeOptions options_;
  std::optional<PrivateNode> node_;
};

}  // namespace refract::bench
