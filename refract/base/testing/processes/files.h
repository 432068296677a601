// SPDX-License-Identifier: Apache-2.0
// Folders and files of a test or of the bench, and how long they wait for something.
//
// Threads: any; an object at a time one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "refract/base/report.h"

namespace refract::test {

// After so long something hangs, however slow the machine is.
inline constexpr uint64_t kPatience_ns = 120'000'000'000;

void sleep_ms(uint64_t milliseconds);
// Asks again and again; false: not within kPatience_ns.
[[nodiscard]] bool becomes_true(const std::function<bool()>& condition);

// A folder below TMPDIR, removed with all that lies in it.
class TemporaryFolder {
 public:
  // Open to other users. Ends the program where the system gives none.
  TemporaryFolder();
  // For this user alone.
  [[nodiscard]] static Reported<TemporaryFolder> make();
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept;
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  explicit TemporaryFolder(std::string path) noexcept : path_(std::move(path)) {}
  std::string path_;  // Empty: moved from.
};

// All of a file; empty where there is none.
[[nodiscard]] std::string read_whole(const std::string& path);
[[nodiscard]] bool write_whole(const std::string& path, const std::string& text);
// The last lines of a file, for the error that mentions it.
[[nodiscard]] std::string tail_of(const std::string& path);

}  // namespace refract::test
