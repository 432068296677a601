// SPDX-License-Identifier: Apache-2.0
#include "tests/process/limited_cgroup.h"

#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "refract/base/testing/processes/files.h"

namespace refract::test {

LimitedCgroup::LimitedCgroup(uint64_t bytes) {
  for (const auto& [root, limit] : {std::pair{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
                                    std::pair{"/sys/fs/cgroup", "memory.max"}}) {
    const std::string folder = std::string(root) + "/refract-test-" + std::to_string(::getpid());
    if (::mkdir(folder.c_str(), 0755) != 0) continue;
    if (::access((folder + "/" + limit).c_str(), W_OK) == 0 &&
        write_whole(folder + "/" + limit, std::to_string(bytes))) {
      path_ = folder;
      return;
    }
    (void)::rmdir(folder.c_str());
  }
}

LimitedCgroup::~LimitedCgroup() {
  // Its last process may not be quite gone.
  if (!path_.empty()) (void)becomes_true([this] { return ::rmdir(path_.c_str()) == 0; });
}

void LimitedCgroup::join() const {
  (void)write_whole(path_ + "/cgroup.procs", std::to_string(::getpid()));
}

}  // namespace refract::test
