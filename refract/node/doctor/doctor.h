// SPDX-License-Identifier: Apache-2.0
// Whether this machine can run a node, and the command that mends what is in the way: `refract doctor`.
//
// It looks and tries (a memfd, a seal) but changes nothing and leaves nothing behind.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "refract/memory/host/backing.h"
#include "refract/memory/host/limits.h"

namespace refract::node {

struct NodeConfig;
enum class Durability : uint8_t;

enum class Health : uint8_t {
  kOk,    // Also for information that is not good and not bad.
  kWarn,  // A node runs, but slower, smaller or harder to diagnose than it could.
  kFail,  // A node with this configuration does not start, or does not keep a promise.
};

// A number that was measured; unit and qualifier are in its name: "read_ns_p50", "put_bytes_per_s".
struct Figure {
  std::string name;
  uint64_t value = 0;
};

struct Finding {
  std::string name;  // "memory", "cgroup", "huge pages": stable, for programs.
  Health health = Health::kOk;
  std::string found;  // One sentence with the numbers.
  std::string mend;   // A command or a setting; empty where nothing is to be mended.
  std::vector<Figure> figures = {};
};

struct DoctorInputs {
  uint64_t memory_limit_bytes = 0;  // What the node is to take at most.
  Backing backing = {};
  std::string socket_path = {};
  uint32_t clients_max = 0;
  uint32_t shards = 1;
  uint32_t copies = 0;               // kv.copies
  std::string listen_address = {};   // Empty: no TCP.
  std::string secret_file = {};      // Empty: none.
  std::string rdma_device = "auto";  // Of the configuration, or the name of one; empty: none.
  Durability durability{};
  std::string data_folder = {};
  bool is_data_folder_default = false;
  std::string directory = {};              // In a Redis; empty: none.
  std::string directory_secret_file = {};  // Of that Redis; empty: it asks for none.
  SystemRoot system = {};
};
// What the configuration asks of this machine.
[[nodiscard]] DoctorInputs doctor_inputs(const NodeConfig& config);

// Every check, in a fixed order. Takes milliseconds; asks a listener at the socket path at most to let it in,
// and leaves at once. A directory in a Redis is connected to, which takes 3 s where it does not answer.
[[nodiscard]] std::vector<Finding> examine(const DoctorInputs& inputs);

// The last line: who reaches a node with this configuration, and by what; or what it fails for. `findings`
// are those of examine().
[[nodiscard]] Finding verdict(const DoctorInputs& inputs, std::span<const Finding> findings);

// Columns for a terminal, one line a finding, its mend below it.
[[nodiscard]] std::string findings_table(std::span<const Finding> findings);
// {"healthy": true, "findings": [{"name", "health": "ok|warn|fail", "found", "mend", "figures": {...}}]}, one
// line.
[[nodiscard]] std::string findings_json(std::span<const Finding> findings);
// What the program exits with: 0 if nothing fails (warnings included), else 1.
[[nodiscard]] int findings_exit_code(std::span<const Finding> findings) noexcept;

}  // namespace refract::node
