// SPDX-License-Identifier: Apache-2.0
// File systems that tests fill up, or that fail: mounted in a mount namespace of the test's own, so that
// no other process sees them and nothing of them outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tests/process/node_process.h"

namespace refract::test {

// Enters the namespace, once; all processes that the test starts from then on are in it, too. What this
// process may not do, of what is needed; empty: all of it. REQUIRES: no thread has been started.
[[nodiscard]] std::string enter_mount_namespace();

// A tmpfs of a size. REQUIRES: enter_mount_namespace() said nothing.
class SmallFileSystem {
 public:
  explicit SmallFileSystem(uint64_t bytes);
  SmallFileSystem(const SmallFileSystem&) = delete;
  SmallFileSystem& operator=(const SmallFileSystem&) = delete;
  ~SmallFileSystem();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  // To the last byte, with a file of its own.
  void fill() const;
  void empty() const;
  void resize(uint64_t bytes) const;

 private:
  [[nodiscard]] std::string ballast() const { return path_ + "/ballast"; }

  TemporaryFolder folder_;
  std::string path_;
};

// An ext4 on a device that may be asked for more than it has, as thin volumes are: where nothing was written
// before, a write is taken at first, and the sync behind it fails. Once; the next one succeeds, and the bytes
// are on no medium.
class ThinFileSystem {
 public:
  // Nothing: this machine cannot have one, and `missing` says why.
  [[nodiscard]] static std::unique_ptr<ThinFileSystem> make(std::string& missing);
  ThinFileSystem(const ThinFileSystem&) = delete;
  ThinFileSystem& operator=(const ThinFileSystem&) = delete;
  ~ThinFileSystem();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  void fail() const { device_.fill(); }
  void mend() const { device_.empty(); }

 private:
  ThinFileSystem();

  TemporaryFolder folder_;
  std::string path_;
  SmallFileSystem device_;
};

}  // namespace refract::test
