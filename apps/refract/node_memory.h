// SPDX-License-Identifier: Apache-2.0
// The memory of a node's shard as mapped here, read-only: of a node that runs, whether its server answers or
// not, or of the region files that one left.
//
// Threads: one. Attaching waits at most for the timeout; nothing here needs the server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "refract/base/report.h"
#include "refract/fabric/shm/attach.h"
#include "refract/memory/host/address_space.h"
#include "refract/memory/host/backing.h"

namespace refract::cli {

class NodeMemory {
 public:
  // `path`: the shard's socket.
  [[nodiscard]] static Reported<std::unique_ptr<NodeMemory>> attach(const std::string& path,
                                                                    uint64_t timeout_ns);
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;
  ~NodeMemory() { attachment_.end(); }

  [[nodiscard]] std::span<const std::byte> space() const {
    return {attachment_.space(), attachment_.mapped_bytes()};
  }
  // The same, after asking the keeper for regions that it offers beyond.
  [[nodiscard]] std::span<const std::byte> grown();
  [[nodiscard]] uint64_t shard_count() const;

 private:
  explicit NodeMemory(const std::string& path) : attachment_(path, {.populate = false}) {}

  fabric::shm::ClientAttachment attachment_;
};

// A server's chance to finish what it was doing.
void wait_a_moment();

struct RegionFiles {
  AddressSpace addresses;
  uint64_t bytes = 0;
  uint64_t count = 0;

  [[nodiscard]] std::span<const std::byte> space() const { return {addresses.base(), bytes}; }
};

// All files of one shard. `backing.folder` is a whole path.
[[nodiscard]] Reported<RegionFiles> map_region_files(const Backing& backing);
// One file alone, whatever it holds; the last bytes that fill no word are left out.
[[nodiscard]] Reported<RegionFiles> map_file(const std::string& path);
// A path as region files name it: whole, without links.
[[nodiscard]] Reported<std::string> whole_path(const std::string& path);
[[nodiscard]] bool is_folder(const std::string& path) noexcept;

}  // namespace refract::cli
