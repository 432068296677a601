// SPDX-License-Identifier: Apache-2.0
#include "bench/sides/shm_side.h"

#include <utility>

#include "refract/base/units.h"

namespace refract::bench {

Reported<std::unique_ptr<ShmSide>> ShmSide::open(const std::string& path) {
  std::unique_ptr<ShmSide> side(new ShmSide);
  fabric::shm::MeetingOptions options;
  options.path = path;
  options.space_bytes_max = kGiB;
  options.on_attach = [side = side.get()](const fabric::shm::Attachment& attachment) {
    // Who cannot be adopted finds the channel closed.
    static_cast<void>(side->domain_->adopt(attachment));
  };
  options.on_detach = [side = side.get()](uint64_t id) { side->domain_->drop(id); };
  auto meeting = fabric::shm::Meeting::open(std::move(options));
  if (!meeting) return report(meeting.error());
  side->meeting_ = std::move(*meeting);
  side->meeting_->begin_incarnation();
  auto domain = fabric::shm::ServerDomain::create({&side->meeting_->node_page()});
  if (!domain) return report(domain.error());
  side->domain_ = std::move(*domain);
  return side;
}

}  // namespace refract::bench
