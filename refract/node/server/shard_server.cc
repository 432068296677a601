// SPDX-License-Identifier: Apache-2.0
#include "refract/node/server/shard_server.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "refract/base/log.h"
#include "refract/base/printable.h"
#include "refract/base/units.h"
#include "refract/cluster/members_wire.h"
#include "refract/memory/store_directory.h"
#include "refract/node/durable/data_report.h"

namespace refract::node {
namespace {

// The link is rarely used: a look costs a system call, so it is made only after the shard was woken by it or
// now and then while the shard is busy.
constexpr uint64_t kPollsPerLook = 1024;

// After a refusal the node counts as full for so long: an administrator may have given it room meanwhile.
constexpr uint64_t kRefused_ns = 5 * kSecond_ns;
// Of a store that is being filled: so much is kept free while more is to come, a step of growth or two.
constexpr uint64_t kAheadBytes = 128 * kMiB;

}  // namespace

int fail_with(const Report& report) {
  log_lines(LogLevel::kError, report.what);
  log_lines(LogLevel::kError, report.next);
  return kExitFailed;
}

ShardServer::ShardServer(ShardBirth birth)
    : birth_(std::move(birth)),
      name_(birth_.plan.name),
      clock_(system_clock(), time_offset_ns(birth_.space.addresses().base())),
      shard_(clock_, {.spin_ns = birth_.config.server_spin_ns}),
      writer_(birth_.space.addresses().base()) {}

ShardServer::~ShardServer() {
  shard_.remove(*this);
}

int ShardServer::run() {
  fabric::shm::publish_server_state(birth_.meeting.node_page(), fabric::shm::ServerState::kServing);
  if (!birth_.link.send({.kind = LinkKind::kServing})) return kExitFailed;
  shard_.run();
  return 0;
}

size_t ShardServer::poll() noexcept {
  if (++polls_ % kPollsPerLook != 0) return 0;
  return read_link();
}

bool ShardServer::can_grow(uint64_t bytes) const noexcept {
  const bool is_refused = bytes >= refused_bytes_ && shard_.now_ns() < refused_until_ns_;
  return !is_refused && heap_->end() < birth_.space.bytes_max();
}

void ShardServer::want(uint64_t bytes) noexcept {
  if (asked_) return;
  asked_ = true;
  if (!birth_.link.send({.kind = LinkKind::kWant, .bytes = bytes})) shard_.stop();
}

int ShardServer::open() {
  make_members();
  if (birth_.plan.copies_by_team) copies_.emplace(CopyTeam::Options{.past_caches = true});
  auto domain = fabric::shm::ServerDomain::create({.node_page = &birth_.meeting.node_page(),
                                                   .loans = birth_.plan.loans,
                                                   .copies = copies_ ? &*copies_ : nullptr});
  if (!domain) return fail_with(domain.error());
  domain_ = std::move(*domain);
  if (auto opened = open_rdma(); !opened) {
    (void)fail_with(opened.error());
    return kExitRefused;
  }
  for (const fabric::shm::Attachment& attachment : birth_.meeting.attachments()) adopt(attachment);
  pins_.add(local_pins_);
  if (const int code = open_store(); code != 0) return code;
  make_services();
  shard_.add(*this);
  if (storage_) {
    const auto started = storage_->start([this] { return on_log_progress(); });
    if (!started) return fail_with(started.error());
  }
  if (!shard_.watch(birth_.link.descriptor())) {
    return fail_with({Code::kSystem, "cannot watch the keeper's link: " + errno_text(errno), ""});
  }
  return 0;
}

int ShardServer::open_store() {
  if (birth_.data != nullptr) {
    auto storage = ShardStorage::open({.config = birth_.config,
                                       .disk = birth_.data->disk(),
                                       .log = birth_.data->log_of(birth_.plan.index),
                                       .ring = birth_.data->ring_of(birth_.plan.index),
                                       .space = birth_.space,
                                       .writer = writer_,
                                       .shard = shard_,
                                       .value_of = birth_.plan.stores.front().value_of,
                                       .name = name_,
                                       .together = birth_.together,
                                       .stands = birth_.stands});
    if (!storage) return fail_with(storage.error());
    storage_ = std::move(*storage);
  }
  heap_ = std::make_unique<Heap>(
      writer_, pins_, birth_.plan.space.spans_regions ? Heap::Borders::kCrossed : Heap::Borders::kKept);
  for (const StoreSpace::Held& held : birth_.space.regions()) {
    heap_->add({held.region.base()}, held.region.bytes());
    serve(held.region.id(), held.region.base(), held.region.bytes(), held.key);
  }
  birth_.meeting.abandon_in_child();
  if (auto checked = check_stores(); !checked) {
    (void)fail_with(checked.error());
    return kExitRefused;
  }
  make_stores();
  return storage_ ? recover_with_log() : recover(nullptr);
}

HostParts ShardServer::host_parts() {
  HostParts parts{.config = birth_.config,
                  .shard_index = birth_.plan.index,
                  .name = name_,
                  .shard = shard_,
                  .writer = writer_,
                  .heap = *heap_,
                  .pins = pins_,
                  .growth = *this,
                  .uses = domain_->uses(),
                  .page = birth_.meeting.node_page(),
                  .bytes_max = birth_.space.bytes_max(),
                  .network = network(),
                  .bypass = rdma_.get(),
                  .log = storage_.get(),
                  .decisions = birth_.decisions};
  if (members_) parts.members = &*members_;
  if (lines_) parts.nodes = &*lines_;
  if (!peers_) return parts;
  parts.peers = &*peers_;
  if (redis_) parts.redis = &*redis_;
  parts.is_node = [this](rpc::SessionId session) { return is_node(session); };
  return parts;
}

void ShardServer::make_stores() {
  const HostParts parts = host_parts();
  for (const StoreRow& row : birth_.plan.stores) {
    stores_.push_back(row.make(parts));
    if (storage_) storage_->host(StoreName::of(row.name), *stores_.back());
  }
}

Reported<> ShardServer::check_stores() const {
  for (const StoreName name : stores_in(writer_)) {
    const auto is_it = [name](const StoreRow& row) { return StoreName::of(row.name) == name; };
    if (std::ranges::any_of(birth_.plan.stores, is_it)) continue;
    return report(Code::kUnsupported,
                  fmt::format("{}the memory has a store \"{}\", which this program does not host", name_,
                              printable(name.text())),
                  "start a refractd that hosts it; nothing was changed");
  }
  return {};
}

int ShardServer::recover_with_log() {
  if (storage_->is_memory_new()) {
    if (const int code = recover(nullptr); code != 0) return code;
    const uint64_t begun_ns = shard_.clock().now_ns();
    const auto filled =
        storage_->fill(*heap_, {.now = [this](uint64_t bytes) { return grow_now(bytes) || make_room(bytes); },
                                .ahead = [this](uint64_t bytes) { grow_ahead(bytes); }});
    if (!filled) {
      (void)fail_with(filled.error());
      return kExitRefused;
    }
    note_recovery(birth_.data->existed() ? "disk" : "nothing", begun_ns);
    recovery_.records = storage_->reading().records;
    recovery_.torn_position = storage_->reading().torn_position;
  } else {
    if (auto going = storage_->go_on(*heap_); !going) return fail_with(going.error());
    const std::optional<storage::Record> last = storage_->last_record();
    if (const int code = recover(last ? &*last : nullptr); code != 0) return code;
  }
  for (const auto& store : stores_) store->begin_logging();
  return 0;
}

bool ShardServer::grow_now(uint64_t value_bytes) {
  const uint64_t before = heap_->end();
  want(value_bytes);
  while (asked_ && heap_->end() == before) {
    if (take_waiting() > 0) continue;
    if (has_ended_) return false;
    pollfd link{.fd = birth_.link.descriptor(), .events = POLLIN, .revents = 0};
    (void)::poll(&link, 1, -1);
  }
  return heap_->end() > before;
}

bool ShardServer::make_room(uint64_t value_bytes) {
  return std::ranges::any_of(stores_, [&](const auto& store) { return store->make_room(value_bytes); });
}

size_t ShardServer::on_log_progress() noexcept {
  size_t done = 0;
  for (const auto& store : stores_) done += store->on_log_progress();
  return done;
}

fabric::Domain* ShardServer::network() noexcept {
  return rdma_ ? static_cast<fabric::Domain*>(rdma_.get()) : tcp_.get();
}

// The keeper makes memory while the shard fills what it has.
void ShardServer::grow_ahead(uint64_t bytes) {
  (void)take_waiting();
  const uint64_t wanted = std::min(bytes, kAheadBytes);
  if (!has_ended_ && can_grow(0) && heap_->stats().bytes_free < wanted) want(0);
}

void ShardServer::make_services() {
  const NodeConfig& config = birth_.config;
  observe_ = std::make_unique<observe::Service>(observed());
  std::vector<HostedMethods> methods;
  for (const auto& store : stores_) store->serve(methods);
  methods.push_back({observe::wire::kMethodsBegin, observe_.get()});
  if (members_service_) methods.push_back({cluster::wire::kMethodsBegin, &*members_service_});
  std::ranges::sort(methods, {}, &HostedMethods::begin);
  // It says of methods before the first store's that there are none.
  if (methods.front().begin > 0) methods.insert(methods.begin(), {0, observe_.get()});
  std::vector<rpc::ServiceTable::Row> rows;
  rows.reserve(methods.size());
  for (const HostedMethods& each : methods) {
    rows.push_back({each.begin, each.is_sampled ? &behind_door(*each.service) : each.service});
  }
  services_ = std::make_unique<rpc::ServiceTable>(rows);
  for (const StoreSpace::Held& held : birth_.space.regions()) {
    for (const auto& store : stores_) store->on_region({held.region.base()}, held.region.bytes());
  }
  // As many over TCP as over shared memory.
  const uint32_t sessions_max = tcp_ ? 2 * config.clients_max + kConnectionsOfNodes : config.clients_max;
  rpc_ = std::make_unique<rpc::Server>(*services_, shard_, rpc::ServerOptions{.sessions_max = sessions_max});
  for (const auto& store : stores_) store->answer_through(rpc_.get());
  observe_->answer_through(*rpc_);
  if (members_service_) members_service_->answer_through(*rpc_);
  dispatcher_ = std::make_unique<fabric::Dispatcher>(*domain_, shard_, rpc_.get());
  if (network() != nullptr) {
    far_dispatcher_ = std::make_unique<fabric::Dispatcher>(*network(), shard_, rpc_.get());
  }
}

rpc::Service& ShardServer::behind_door(rpc::Service& service) {
  doors_.push_back(std::make_unique<observe::FrontDoor>(service, *observe_));
  return *doors_.back();
}

observe::Service::Parts ShardServer::observed() {
  const fabric::shm::NodePage& page = birth_.meeting.node_page();
  return {.tell_stores =
              [this](observe::ShardState& state) {
                for (const auto& store : stores_) store->tell(state);
              },
          .heap = *heap_,
          .pins = pins_,
          .shard = shard_,
          .identity = {page.identity[0], page.identity[1]},
          .incarnation = fabric::shm::incarnation(page),
          .shard_index = birth_.plan.index,
          .shard_count = birth_.config.server_shards,
          .peer_of = [this](const fabric::Channel& channel) { return peer_of(channel); },
          .add_counters = [this](const observe::AddCounter& add) { add_counters(add); },
          .data =
              [this] {
                return data_state(birth_.config, birth_.plan, storage_.get(), recovery_,
                                  shard_.clock().now_ns());
              },
          .want_snapshot = snapshot_asker()};
}

std::function<uint64_t()> ShardServer::snapshot_asker() {
  if (!storage_) return {};
  return [this] { return storage_->snapshots().want_now(); };
}

void ShardServer::add_counters(const observe::AddCounter& add) const {
  const fabric::shm::DomainCounters& shm = domain_->counters();
  add("shm.opened", shm.opened);
  add("shm.closed", shm.closed);
  add("shm.bad_frame", shm.bad_frame);
  add("shm.access_denied", shm.access_denied);
  add("shm.doorbells_rung", shm.doorbells_rung);
  add("shm.doorbells_heard", shm.doorbells_heard);
  for (const auto& store : stores_) store->add_counters(add);
  add_log_counters(add);
  if (!tcp_) return;
  const fabric::tcp::DomainCounters& tcp = tcp_->counters();
  add("tcp.opened", tcp.opened);
  add("tcp.closed", tcp.closed);
  add("tcp.lost", tcp.lost);
  add("tcp.bad_frame", tcp.bad_frame);
  add("tcp.access_denied", tcp.access_denied);
  add("tcp.sends", tcp.sends);
  add("tcp.receives", tcp.receives);
  add("tcp.bytes_sent", tcp.bytes_sent);
  add("tcp.bytes_received", tcp.bytes_received);
  if (rdma_) add_rdma_counters(add);
}

void ShardServer::add_log_counters(const observe::AddCounter& add) const {
  if (!storage_) return;
  const storage::ShardLog& log = storage_->log();
  const storage::LogCounters counters = log.counters();
  add("log.state", static_cast<uint64_t>(log.state()));
  add("log.appended", log.appended());
  add("log.synced", log.synced());
  add("log.records", counters.records);
  add("log.bytes", counters.bytes);
  add("log.writes", counters.writes);
  add("log.syncs", counters.syncs);
  add("log.sync_p99_ns", counters.sync_ns.quantile(0.99));
  add("log.disk_bytes", log.disk_bytes());
  const ShardSnapshots& snapshots = storage_->snapshots();
  add("snapshot.written", snapshots.written());
  add("snapshot.failed", snapshots.failed());
  const observe::SnapshotStatus status = snapshots.status();
  add("snapshot.last_entries", status.entries);
  add("snapshot.last_bytes", status.bytes);
  add("snapshot.last_took_ns", status.took_ns);
}

const fabric::Channel* ShardServer::socket_of(const fabric::Channel& channel) const noexcept {
  if (const fabric::Channel* by = rdma_ ? rdma_->introducer_of(channel) : nullptr; by != nullptr) return by;
  // Of the two others only TCP has something to gain from one-sided transfers.
  return channel.capabilities().one_sided_bytes_min > 0 ? &channel : nullptr;
}

observe::Peer ShardServer::peer_of(const fabric::Channel& channel) const {
  if (const fabric::Channel* by = socket_of(channel); by != nullptr) {
    const bool is_tcp = by == &channel;
    return {.transport = is_tcp ? "tcp" : "verbs",
            .name = fabric::tcp::ServerDomain::peer_of(*by),
            .reason = is_tcp ? "another host, or asked for: everything goes through the socket"
                             : "another host with RDMA: reads need no server, writes are messages"};
  }
  const auto owner = owners_.find(fabric::shm::ServerDomain::connection_id(channel));
  return {.transport = "shm",
          .name = owner == owners_.end()
                      ? std::string("unknown")
                      : fmt::format("process {}, user {}", owner->second.process, owner->second.user),
          .reason = "same host: reads are loads, writes go through shared memory"};
}

int ShardServer::recover(const storage::Record* last) {
  const uint64_t begun_ns = shard_.clock().now_ns();
  if (!recover_stores(last)) {
    for (const auto& store : stores_) {
      const auto damage = store->damage();
      if (!damage) continue;
      log_error("{}{}", name_, damage->what);
      (void)birth_.link.send({.kind = LinkKind::kDamaged, .base = damage->at.value});
      return kExitDamaged;
    }
    (void)birth_.link.send({.kind = LinkKind::kDamaged});
    return kExitDamaged;
  }
  const bool is_new = entry_count() == 0 && fabric::shm::incarnation(birth_.meeting.node_page()) <= 1;
  note_recovery(is_new ? "nothing" : "memory", begun_ns);
  if (recovery_.entries > 0) {
    log_info("{}{} entries found in {} ms", name_, recovery_.entries, recovery_.took_ns / kMillisecond_ns);
  }
  return 0;
}

// The first row's records bear no name.
bool ShardServer::wrote(size_t row, const storage::Record& record) const noexcept {
  return record.kind == storage::RecordKind::kHosted
             ? record.store == StoreName::of(birth_.plan.stores[row].name)
             : row == 0;
}

bool ShardServer::recover_stores(const storage::Record* last) {
  heap_->begin_recovery();
  for (size_t i = 0; i < stores_.size(); ++i) {
    if (!stores_[i]->mark_live(last != nullptr && wrote(i, *last) ? last : nullptr)) return false;
  }
  for (const auto& store : stores_) store->mark_pinned();
  heap_->end_recovery();
  return std::ranges::all_of(stores_, [](const auto& store) { return store->finish_recovery().has_value(); });
}

uint64_t ShardServer::entry_count() const noexcept {
  uint64_t count = 0;
  for (const auto& store : stores_) count += store->entry_count();
  return count;
}

void ShardServer::note_recovery(const char* source, uint64_t begun_ns) {
  recovery_ = {.source = source, .entries = entry_count(), .took_ns = shard_.clock().now_ns() - begun_ns};
}

void ShardServer::adopt(const fabric::shm::Attachment& attachment) {
  owners_[attachment.id] = {.process = attachment.process, .user = attachment.user};
  if (auto adopted = domain_->adopt(attachment); !adopted) {
    log_warn("{}client {} is not served: {}", name_, attachment.id, adopted.error().what);
  }
}

void ShardServer::serve(uint16_t region, uint64_t base, uint64_t bytes, RemoteKey key) {
  const fabric::Domain::RegionSpec spec = {
      .region = region, .base = writer_.base() + base, .bytes = bytes, .rights = {.read = true}};
  if (const auto served = domain_->serve_region(spec, key); !served) {
    log_warn("{}region {} has no one-sided requests: {}", name_, region, served.error().what);
  }
}

// What else the keeper says is for the server's own turn: this may be in the middle of a change of the heap.
void ShardServer::adopt_waiting() {
  while (auto received = birth_.link.receive(has_ended_)) {
    if (received->message.kind == LinkKind::kAttach) {
      take(*received);
    } else {
      unread_.push_back(std::move(*received));
    }
  }
}

// A reader pins, then looks again whether the record stands; the owner has removed it. So of a client that is
// let in behind this look the second one fails.
void ShardServer::LocalPins::collect(PinSet& pins) noexcept {
  store_load_fence();
  server_.adopt_waiting();
  server_.domain_->pins().collect(pins);
}

size_t ShardServer::take_waiting() {
  size_t count = 0;
  while (true) {
    if (unread_.empty()) {
      auto received = birth_.link.receive(has_ended_);
      if (!received) break;
      unread_.push_back(std::move(*received));
    }
    const LinkEnd::Received received = std::move(unread_.front());
    unread_.pop_front();
    ++count;
    take(received);
  }
  return count;
}

size_t ShardServer::read_link() {
  const size_t count = take_waiting();
  if (has_ended_) shard_.stop();
  return count;
}

void ShardServer::take(const LinkEnd::Received& received) {
  const LinkMessage& message = received.message;
  switch (message.kind) {
    case LinkKind::kAttach:
      adopt({.id = message.id,
             .memory_fd = received.descriptors[0].get(),
             .doorbell_fd = received.descriptors[1].get(),
             .process = static_cast<uint32_t>(message.base),
             .user = static_cast<uint32_t>(message.bytes)});
      break;
    case LinkKind::kDetach:
      domain_->drop(message.id);
      owners_.erase(message.id);
      break;
    case LinkKind::kMapRegion:
      map(message, received.descriptors[0].get());
      break;
    case LinkKind::kRegionReady:
      heap_->add({message.base}, message.bytes);
      serve(static_cast<uint16_t>(message.region), message.base, message.bytes, RemoteKey{message.key});
      asked_ = false;
      if (!services_) break;  // The stores are still being filled.
      for (const auto& store : stores_) {
        store->on_region({message.base}, message.bytes);
        store->on_memory_added();
      }
      break;
    case LinkKind::kRefused:
      refused_until_ns_ = shard_.refresh_now() + kRefused_ns;
      refused_bytes_ = message.bytes;
      asked_ = false;
      if (!services_) break;
      for (const auto& store : stores_) store->on_growth_refused();
      break;
    case LinkKind::kMembers:
      take_members(received.descriptors[0].get());
      break;
    default:
      break;
  }
}

void ShardServer::map(const LinkMessage& message, int descriptor) {
  const auto mapped = birth_.space.addresses().map({.descriptor = descriptor,
                                                    .file_offset = 0,
                                                    .at = message.base,
                                                    .bytes = message.bytes,
                                                    .writable = true});
  if (!mapped) {
    // The next server inherits the keeper's mapping instead.
    log_error("{}{}", name_, mapped.error().what);
    shard_.stop();
    return;
  }
  // While it serves, a pause of milliseconds would be worse than faults one by one.
  if (!services_) birth_.space.addresses().expect_writes(descriptor, message.base, message.bytes);
  if (!birth_.link.send({.kind = LinkKind::kMapped, .region = message.region})) shard_.stop();
}

}  // namespace refract::node
