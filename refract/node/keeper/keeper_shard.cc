// SPDX-License-Identifier: Apache-2.0
#include "refract/node/keeper/keeper_shard.h"

#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "refract/base/log.h"
#include "refract/base/units.h"
#include "refract/cluster/members_wire.h"
#include "refract/fabric/shm/descriptors.h"

namespace refract::node {

KeeperShard::~KeeperShard() = default;

Reported<std::unique_ptr<KeeperShard>> KeeperShard::open(const Options& options) {
  auto space = StoreSpace::open(options.plan.space, options.origin);
  if (!space) return report(space.error());
  std::unique_ptr<KeeperShard> shard(new KeeperShard(options.plan, std::move(*space)));
  if (auto opened = shard->open_meeting(options); !opened) return report(opened.error());
  return shard;
}

Reported<> KeeperShard::open_meeting(const Options& options) {
  fabric::shm::MeetingOptions meets;
  meets.path = fabric::shm::shard_socket_path(options.config.socket_path, plan_.index);
  meets.identity = options.identity;
  meets.shard_index = plan_.index;
  meets.shard_count = options.config.server_shards;
  meets.tcp_port = options.tcp_port;
  meets.space_bytes_max = space_.bytes_max();
  meets.connections_max = options.config.clients_max;
  meets.pin_tables = plan_.pin_tables;
  // Readers need no server, and would miss what has not been read yet.
  meets.admits = [this]() -> Reported<> {
    if (!plan_.is_on_disk || space_.fill_state() == kFillComplete) return {};
    return report(Code::kUnavailable, "the node is still reading its data from the disk",
                  "try again when it has said that it is ready");
  };
  meets.on_attach = [this](const fabric::shm::Attachment& attachment) {
    send({.kind = LinkKind::kAttach,
          .id = attachment.id,
          .base = attachment.process,
          .bytes = attachment.user},
         {attachment.memory_fd, attachment.doorbell_fd});
  };
  meets.on_detach = [this](uint64_t id) { send({.kind = LinkKind::kDetach, .id = id}); };
  auto meeting = fabric::shm::Meeting::open(std::move(meets));
  if (!meeting) return report(meeting.error());
  meeting_ = std::move(*meeting);
  for (const StoreSpace::Held& held : space_.regions()) {
    if (auto offered = offer(held); !offered) return offered;
  }
  return {};
}

Reported<> KeeperShard::offer(const StoreSpace::Held& held) {
  auto descriptor = held.region.read_descriptor();
  if (!descriptor) return report(descriptor.error());
  return meeting_->offer_region({.region = held.region.id(),
                                 .base = held.region.base(),
                                 .bytes = held.region.bytes(),
                                 .read_fd = *descriptor,
                                 .key = held.key});
}

Reported<LinkEnd> KeeperShard::begin_server() {
  auto link = make_link();
  if (!link) return report(link.error());
  meeting_->begin_incarnation();
  link_ = std::move(link->keeper);
  serving_ = deaf_ = false;
  return std::move(link->server);
}

void KeeperShard::on_server_ended() {
  (void)read_link();
  link_.close();
  serving_ = false;
  // A region that the server had not taken over yet belongs to the next one, which inherits it.
  if (populated_) finish_growth();
}

void KeeperShard::send(const LinkMessage& message, std::initializer_list<int> descriptors) {
  if (link_.descriptor() < 0) return;
  if (link_.send(message, descriptors)) return;
  // It has just ended, and the signal that says so is on its way; the next server is told by its birth.
  if (errno == EPIPE || errno == ECONNRESET) return;
  // A server that is stopped for long reads nothing until the socket is full. The next one is told by its
  // birth.
  deaf_ = true;
}

void KeeperShard::tell(const cluster::Members& members) {
  if (link_.descriptor() < 0) return;
  const std::vector<std::byte> page = cluster::wire::encode_page(members, 0, cluster::wire::kPageBytesMax);
  auto memory = fabric::shm::make_memory("refract-members", page.size());
  const bool is_written =
      memory && ::pwrite(memory->get(), page.data(), page.size(), 0) == static_cast<ssize_t>(page.size());
  if (is_written) return send({.kind = LinkKind::kMembers}, {memory->get()});
  log_error("{}the server cannot be handed the list of nodes: {}", plan_.name,
            memory ? errno_text(errno) : memory.error().what);
  // The next one is told by its birth.
  deaf_ = true;
}

bool KeeperShard::read_link() {
  bool ended = false;
  while (auto received = link_.receive(ended)) {
    const LinkMessage& message = received->message;
    if (message.kind == LinkKind::kServing) {
      serving_ = true;
      meeting_->server_changed();
    } else if (message.kind == LinkKind::kWant) {
      on_want(message.bytes);
    } else if (message.kind == LinkKind::kMapped) {
      if (populated_) finish_growth();
    } else if (message.kind == LinkKind::kDamaged) {
      log_error("{}the space is damaged at offset {}", plan_.name, message.base);
      damaged_ = true;
    }
  }
  return !ended;
}

void KeeperShard::on_want(uint64_t bytes) {
  if (space_.is_growing()) return;
  const uint64_t region_bytes = space_.next_region_bytes(bytes);
  if (region_bytes == 0) {
    // One value that is too long must not keep others from growing the node.
    const uint64_t refused_bytes = space_.next_region_bytes(0) == 0 ? 0 : bytes;
    send({.kind = LinkKind::kRefused, .code = static_cast<uint32_t>(Code::kNoSpace), .bytes = refused_bytes});
    return;
  }
  if (auto begun = space_.begin_growth(region_bytes); !begun) refuse_growth(begun.error());
}

void KeeperShard::refuse_growth(const Report& why) {
  log_warn("{}the node cannot grow: {}", plan_.name, why.what);
  if (!why.next.empty()) log_warn("{}", why.next);
  send({.kind = LinkKind::kRefused, .code = static_cast<uint32_t>(Code::kNoSpace)});
}

void KeeperShard::grow() {
  auto done = space_.grow_some();
  if (!done) {
    refuse_growth(done.error());
    return;
  }
  if (!*done) return;
  populated_ = true;
  if (link_.descriptor() < 0) {
    finish_growth();
    return;
  }
  const Region& region = space_.growing();
  send({.kind = LinkKind::kMapRegion, .region = region.id(), .base = region.base(), .bytes = region.bytes()},
       {region.write_descriptor()});
}

void KeeperShard::finish_growth() {
  populated_ = false;
  if (auto finished = space_.finish_growth(); !finished) {
    refuse_growth(finished.error());
    return;
  }
  const StoreSpace::Held& held = space_.regions().back();
  // Readers first: the server must not point into what they cannot map.
  if (auto offered = offer(held); !offered) {
    log_error("{}{}", plan_.name, offered.error().what);
    return;
  }
  log_info("{}grown to {} MiB of {} MiB", plan_.name, space_.bytes() / kMiB, space_.bytes_max() / kMiB);
  send({.kind = LinkKind::kRegionReady,
        .region = held.region.id(),
        .base = held.region.base(),
        .bytes = held.region.bytes(),
        .key = held.key.bits});
}

}  // namespace refract::node
