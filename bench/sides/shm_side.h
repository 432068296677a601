// SPDX-License-Identifier: Apache-2.0
// The serving side of shared memory without a keeper: a socket to meet at, and a domain that takes every
// client that attaches there. The caller polls the meeting.
#pragma once

#include <memory>
#include <string>

#include "refract/base/report.h"
#include "refract/fabric/shm/domain.h"
#include "refract/fabric/shm/meeting.h"

namespace refract::bench {

class ShmSide {
 public:
  // On the heap, since the meeting calls it back. The domain does not serve yet.
  [[nodiscard]] static Reported<std::unique_ptr<ShmSide>> open(const std::string& path);
  ShmSide(const ShmSide&) = delete;
  ShmSide& operator=(const ShmSide&) = delete;
  ~ShmSide() = default;

  [[nodiscard]] fabric::shm::Meeting& meeting() noexcept { return *meeting_; }
  [[nodiscard]] const std::string& path() const noexcept { return meeting_->path(); }
  [[nodiscard]] fabric::shm::ServerDomain& domain() noexcept { return *domain_; }

 private:
  ShmSide() = default;

  std::unique_ptr<fabric::shm::Meeting> meeting_;
  std::unique_ptr<fabric::shm::ServerDomain> domain_;
};

}  // namespace refract::bench
