// SPDX-License-Identifier: Apache-2.0
// A cgroup with a memory limit, for processes that are to meet it.
#pragma once

#include <cstdint>
#include <string>

namespace refract::test {

// Below the test's own. Its path is empty where that is not permitted. Goes when its last process has ended.
class LimitedCgroup {
 public:
  explicit LimitedCgroup(uint64_t bytes);
  LimitedCgroup(const LimitedCgroup&) = delete;
  LimitedCgroup& operator=(const LimitedCgroup&) = delete;
  ~LimitedCgroup();
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  // The calling process, and what it starts from now on.
  void join() const;

 private:
  std::string path_;
};

}  // namespace refract::test
