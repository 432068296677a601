// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/sim/network.h"

#include <algorithm>
#include <cstring>

#include "refract/base/check.h"
#include "refract/fabric/sim/domain.h"

namespace refract::sim {

using fabric::Op;

namespace {

constexpr uint64_t kHeaderBytes = 64;
constexpr size_t kPacketBytesReserved = 512;
constexpr size_t kPacketsReserved = 256;  // Growth after that is rare, and only then something allocates.

bool is_one_sided(Op op) noexcept {
  return op == Op::kRead || op == Op::kWrite || op == Op::kCompareSwap || op == Op::kFetchAdd;
}

// On its way to the peer; a machine's own count, since headers are its options.
uint64_t wire_bytes_of(const Packet& packet, const Machine* machine) noexcept {
  if (machine == nullptr) return 0;
  if (!is_one_sided(packet.op)) return machine->message_wire_bytes(packet.bytes);
  return machine->request_wire_bytes(packet.op == Op::kRead ? 0 : packet.bytes);
}

uint64_t hash_of(Packet& packet) noexcept {
  uint64_t hash = mix(packet.token ^ (packet.bytes << 8) ^ static_cast<uint64_t>(packet.op));
  for (const uint64_t word : packet.storage) hash = mix(hash ^ word);
  return hash;
}

}  // namespace

Network::Network(World* world) : world_(world) {
  events_.reserve(4096);
  for (size_t i = 0; i < kPacketsReserved; ++i) static_cast<void>(take_packet());
  for (const auto& packet : packets_) free_packets_.push_back(packet.get());
}

Network::~Network() = default;

Packet* Network::take_packet() {
  if (free_packets_.empty()) {
    packets_.push_back(std::make_unique<Packet>());
    packets_.back()->storage.reserve(kPacketBytesReserved / sizeof(uint64_t));
    free_packets_.reserve(packets_.capacity());
    return packets_.back().get();
  }
  Packet* packet = free_packets_.back();
  free_packets_.pop_back();
  std::vector<uint64_t> storage = std::move(packet->storage);
  *packet = {};
  packet->storage = std::move(storage);
  return packet;
}

void Network::release(Packet* packet) noexcept {
  REFRACT_CHECK(packet->references > 0);
  if (--packet->references == 0) free_packets_.push_back(packet);
}

Network::Pair Network::pair_of(const Host& a, const Host& b) noexcept {
  return {std::min(a.index_, b.index_), std::max(a.index_, b.index_)};
}

bool Network::is_cut(const Connection& connection) const noexcept {
  const Host* a = connection.ends[0].host;
  const Host* b = connection.ends[1].host;
  return b != nullptr && std::ranges::find(cuts_, pair_of(*a, *b)) != cuts_.end();
}

LinkOptions& Network::link(const Host& a, const Host& b) {
  return links_.try_emplace(pair_of(a, b), world_->options_.link).first->second;
}

const LinkOptions& Network::link_of(const Connection& connection) const noexcept {
  if (connection.ends[1].host == nullptr) return world_->options_.link;
  const auto found = links_.find(pair_of(*connection.ends[0].host, *connection.ends[1].host));
  return found == links_.end() ? world_->options_.link : found->second;
}

uint64_t Network::draw_delay_ns(const Connection& connection) noexcept {
  const LinkOptions& link = link_of(connection);
  Prng& prng = world_->prng_;
  uint64_t delay_ns = link.delay_ns + prng.below(link.jitter_ns + 1);
  if (prng.chance(link.tail_chance)) delay_ns += prng.below(link.tail_ns + 1);
  return delay_ns;
}

void Network::push(uint64_t at_ns, Event event) noexcept {
  event.at_ns = at_ns;
  event.tie = world_->prng_.next();
  event.sequence = next_sequence_++;
  events_.push_back(event);
  std::push_heap(events_.begin(), events_.end());
}

void Network::send(Packet* packet) noexcept {
  Connection& connection = *packet->connection;
  End& end = connection.ends[packet->from];
  const LinkOptions& link = link_of(connection);
  uint64_t leaves_ns = std::max(world_->now_ns(), end.host->sending_until_ns_);
  const bool carries = packet->op == Op::kSend || packet->op == Op::kWrite;
  const Host* target = connection.ends[1 - packet->from].host;
  const uint64_t wire_bytes = wire_bytes_of(*packet, end.host->machine_.get());
  packet->served = false;
  if (end.host->machine_ != nullptr) leaves_ns = end.host->machine_->transmit(world_->now_ns(), wire_bytes);
  if (link.bytes_per_us > 0) {
    leaves_ns += (kHeaderBytes + (carries ? packet->bytes : 0)) * 1'000 / link.bytes_per_us;
    end.host->sending_until_ns_ = leaves_ns;
  }
  uint64_t at_ns = leaves_ns + draw_delay_ns(connection);
  if (target != nullptr && target->machine_ != nullptr) {
    at_ns = target->machine_->receive(at_ns, wire_bytes_of(*packet, target->machine_.get()));
  }
  at_ns = std::max(at_ns, end.arrival_ns + 1);
  end.arrival_ns = at_ns + packet->piece_ns * packet->piece_count;
  push(at_ns, {.kind = EventKind::kArrive, .connection = &connection, .packet = packet});
}

void Network::send_back(Packet* packet) noexcept {
  const LinkOptions& link = link_of(*packet->connection);
  uint64_t delay_ns = draw_delay_ns(*packet->connection);
  if (packet->op == Op::kRead && link.bytes_per_us > 0) delay_ns += packet->bytes * 1'000 / link.bytes_per_us;
  uint64_t at_ns = world_->now_ns() + delay_ns;
  // That a message was taken is said along with what else goes there, and takes nothing by itself.
  if (is_one_sided(packet->op)) {
    const size_t bytes = packet->op == Op::kRead && packet->code == Code::kOk ? packet->bytes : 0;
    const Host* answerer = packet->connection->ends[1 - packet->from].host;
    const Host* poster = packet->connection->ends[packet->from].host;
    if (Machine* machine = answerer->machine_.get(); machine != nullptr) {
      at_ns = machine->transmit(world_->now_ns(), machine->answer_wire_bytes(bytes)) + delay_ns;
    }
    if (Machine* machine = poster->machine_.get(); machine != nullptr) {
      at_ns = machine->receive(at_ns, machine->answer_wire_bytes(bytes));
    }
  }
  push(at_ns, {.kind = EventKind::kReturn, .connection = packet->connection, .packet = packet});
}

void Network::draw_pieces(Packet& packet) noexcept {
  if ((packet.op != Op::kRead && packet.op != Op::kWrite) || packet.bytes == 0) return;
  const LinkOptions& link = link_of(*packet.connection);
  Prng& prng = world_->prng_;
  if (!prng.chance(link.torn_chance)) return;
  constexpr uint64_t kPiecesMax = 16;  // Of a large request a piece is several lines.
  const uint64_t lines = (packet.remote.address.offset() % 64 + packet.bytes + 63) / 64;
  packet.piece_count = static_cast<uint32_t>(std::min(lines, kPiecesMax));
  packet.piece_ns = 1 + prng.below(link.torn_ns + 1) / packet.piece_count;
  packet.first_piece = static_cast<uint32_t>(prng.below(packet.piece_count));
  packet.backward = prng.chance(0.5);
}

void Network::launch(Packet* packet) noexcept {
  draw_pieces(*packet);
  send(packet);
}

void Network::send_close(Connection& connection, uint8_t from) noexcept {
  Packet* packet = take_packet();
  packet->op = Op::kClosed;
  packet->from = from;
  packet->connection = &connection;
  packet->log_position = connection.ends[from].host->log_position();
  packet->set_bytes(0);
  packet->references = 1;
  send(packet);
}

Connection& Network::make_connection(Host& from) {
  connections_.push_back(std::make_unique<Connection>());
  connections_.back()->ends[0].host = &from;
  return *connections_.back();
}

void Network::send_open(Connection& connection, std::string_view address) {
  Packet* packet = take_packet();
  packet->op = Op::kOpened;
  packet->connection = &connection;
  packet->log_position = connection.ends[0].host->log_position();
  packet->set_bytes(0);
  packet->references = 1;
  connection.ends[1].host = world_->find_host(address);
  send(packet);
  if (is_cut(connection)) break_later(connection, 0, link_of(connection).break_ns, connection.cut_count);
}

void Network::acknowledge(Packet* message) noexcept {
  Host* receiver = message->connection->ends[1 - message->from].host;
  message->log_position = receiver->log_position();
  send_back(message);
}

void Network::call_after(uint64_t ns, std::function<void()> what) {
  size_t index = calls_.size();
  if (free_calls_.empty()) {
    calls_.push_back(std::move(what));
  } else {
    index = free_calls_.back();
    free_calls_.pop_back();
    calls_[index] = std::move(what);
  }
  push(world_->now_ns() + ns, {.kind = EventKind::kCall, .value = index});
}

void Network::break_later(Connection& connection, uint8_t end, uint64_t delay_ns, uint64_t cut) noexcept {
  push(world_->now_ns() + delay_ns,
       {.kind = EventKind::kBreak, .end = end, .connection = &connection, .value = cut});
}

void Network::cut(Host& a, Host& b) {
  const Pair pair = pair_of(a, b);
  if (std::ranges::find(cuts_, pair) != cuts_.end()) return;
  cuts_.push_back(pair);
  for (const auto& connection : connections_) {
    if (!is_cut(*connection) || pair_of(*connection->ends[0].host, *connection->ends[1].host) != pair)
      continue;
    for (const uint8_t end : {uint8_t{0}, uint8_t{1}}) {
      const uint64_t break_ns = link_of(*connection).break_ns;
      break_later(*connection, end, break_ns / 2 + world_->prng_.below(break_ns / 2 + 1),
                  connection->cut_count);
    }
  }
}

void Network::heal(Host& a, Host& b) {
  const Pair pair = pair_of(a, b);
  if (std::erase(cuts_, pair) == 0) return;
  for (const auto& connection : connections_) {
    const End& first = connection->ends[0];
    const End& second = connection->ends[1];
    if (second.host == nullptr || pair_of(*first.host, *second.host) != pair) continue;
    ++connection->cut_count;
    go_on(*connection);
    // One end gave up while the other did not notice.
    if (first.dead != second.dead) {
      break_later(*connection, first.dead ? 1 : 0, draw_delay_ns(*connection), kAlways);
    }
  }
}

void Network::resume(Host& host) {
  for (const auto& connection : connections_) {
    if (connection->ends[0].host == &host || connection->ends[1].host == &host) go_on(*connection);
  }
}

std::vector<Packet*> Network::take_under_way(Connection& connection, uint8_t end) {
  std::vector<Event> taken;
  const auto is_ours = [&connection, end](const Event& event) {
    return event.kind == EventKind::kArrive && event.connection == &connection && event.packet->from == end;
  };
  std::ranges::copy_if(events_, std::back_inserter(taken), is_ours);
  std::erase_if(events_, is_ours);
  std::make_heap(events_.begin(), events_.end());
  std::ranges::sort(taken, [](const Event& a, const Event& b) { return b < a; });
  std::vector<Packet*> packets;
  packets.reserve(taken.size());
  for (const Event& event : taken) packets.push_back(event.packet);
  return packets;
}

void Network::go_on(Connection& connection) noexcept {
  for (const uint8_t end : {uint8_t{0}, uint8_t{1}}) {
    std::vector<Packet*>& waiting = connection.waiting[end];
    if (waiting.empty()) continue;
    const std::vector<Packet*> behind = take_under_way(connection, end);
    for (Packet* packet : std::exchange(waiting, {})) send(packet);
    for (Packet* packet : behind) send(packet);
  }
  for (Packet* packet : std::exchange(connection.returning, {})) send_back(packet);
}

void Network::host_died(Host& host, uint64_t log_position) noexcept {
  for (const auto& connection : connections_) {
    for (const uint8_t end : {uint8_t{0}, uint8_t{1}}) {
      if (connection->ends[end].host != &host) continue;
      connection->ends[end].dead = true;
      // A prefix of what it had sent before it died arrives.
      std::vector<Packet*> under_way = std::exchange(connection->waiting[end], {});
      const std::vector<Packet*> behind = take_under_way(*connection, end);
      under_way.insert(under_way.end(), behind.begin(), behind.end());
      const size_t arriving = world_->prng_.below(under_way.size() + 1);
      for (size_t i = 0; i < under_way.size(); ++i) {
        if (i < arriving && under_way[i]->log_position <= log_position) {
          send(under_way[i]);
        } else {
          release(under_way[i]);
        }
      }
      if (connection->ends[1 - end].dead) continue;
      const uint64_t noticed_ns = draw_delay_ns(*connection) + link_of(*connection).jitter_ns;
      const uint64_t last_ns = connection->ends[end].arrival_ns;
      const uint64_t behind_ns = last_ns > world_->now_ns() ? last_ns - world_->now_ns() : 0;
      break_later(*connection, static_cast<uint8_t>(1 - end), noticed_ns + behind_ns, kAlways);
    }
  }
}

uint64_t Network::next_event_ns() const noexcept {
  return events_.empty() ? kForever_ns : events_.front().at_ns;
}

void Network::run_event() {
  std::pop_heap(events_.begin(), events_.end());
  const Event event = events_.back();
  events_.pop_back();
  world_->trace(static_cast<uint64_t>(event.kind),
                event.packet == nullptr ? event.value : hash_of(*event.packet));
  handle(event);
}

void Network::handle(const Event& event) {
  switch (event.kind) {
    case EventKind::kArrive:
      return arrive(event.packet);
    case EventKind::kPiece:
      return run_piece(event.packet);
    case EventKind::kReturn:
      return come_back(event.packet);
    case EventKind::kBreak:
      if (event.value != kAlways && event.value != event.connection->cut_count) return;
      return break_end(*event.connection, event.end);
    case EventKind::kCall: {
      const std::function<void()> what = std::exchange(calls_[event.value], nullptr);
      free_calls_.push_back(event.value);
      return what();
    }
  }
}

bool Network::is_served_later(Packet* packet) {
  Connection& connection = *packet->connection;
  Machine* machine = connection.ends[1 - packet->from].host->machine_.get();
  if (machine == nullptr || packet->served) return false;
  packet->served = true;
  uint64_t at_ns = world_->now_ns();
  if (packet->op != Op::kClosed) {
    const bool is_message = packet->op == Op::kSend;
    const std::span<const std::byte> message(packet->data(), is_message ? packet->bytes : 0);
    at_ns = machine->serve(at_ns, {.op = packet->op, .message = message, .bytes = packet->bytes});
  }
  End& end = connection.ends[packet->from];
  at_ns = std::max(at_ns, end.effect_ns + 1);
  end.effect_ns = at_ns;
  if (at_ns <= world_->now_ns()) return false;
  push(at_ns, {.kind = EventKind::kArrive, .connection = &connection, .packet = packet});
  return true;
}

void Network::arrive(Packet* packet) {
  Connection& connection = *packet->connection;
  const auto to = static_cast<uint8_t>(1 - packet->from);
  if (packet->op == Op::kOpened && !is_cut(connection)) return open(packet);
  End& target = connection.ends[to];
  const bool one_sided_waits =
      world_->options_.one_sided_needs_target && target.host != nullptr && target.host->paused_;
  if (is_cut(connection) || one_sided_waits || !connection.waiting[packet->from].empty()) {
    connection.waiting[packet->from].push_back(packet);
    return;
  }
  if (target.dead || target.channel == nullptr || target.host->doomed_) {
    // There is no receiver: the poster will be told, if it still lives.
    if (!connection.ends[packet->from].dead) {
      break_later(connection, packet->from, draw_delay_ns(connection), kAlways);
    }
    return release(packet);
  }
  if (is_served_later(packet)) return;
  connection.ends[packet->from].host->make_visible(packet->log_position);
  if (packet->op == Op::kSend) return target.host->domain_->deliver(packet, *target.channel);
  if (packet->op == Op::kClosed) {
    release(packet);
    return target.channel->give_up(Code::kUnavailable);
  }
  packet->piece = 0;
  // The memory is the poster's until it is told of the end, and a device may fetch it late.
  if (packet->op == Op::kWrite && !packet->abandoned && packet->bytes > 0 &&
      !connection.ends[packet->from].dead) {
    std::memcpy(packet->data(), packet->local.data, packet->bytes);
  }
  run_piece(packet);
}

void Network::open(Packet* packet) {
  Connection& connection = *packet->connection;
  End& target = connection.ends[1];
  connection.ends[0].host->make_visible(packet->log_position);
  if (connection.ends[0].dead) return release(packet);
  if (target.host == nullptr || !target.host->alive() || target.host->doomed_ || !target.host->listening_) {
    packet->code = Code::kUnavailable;
    target.dead = true;
  } else {
    static_cast<void>(target.host->domain_->accept(connection));
    packet->log_position = target.host->log_position();
  }
  send_back(packet);
}

void Network::run_piece(Packet* packet) {
  const End& target = packet->connection->ends[1 - packet->from];
  if (target.dead || target.channel == nullptr) return release(packet);
  if (packet->code != Code::kOk) return send_back(packet);
  Host& host = *target.host;
  std::byte* place = host.domain_->admit(*packet);
  if (place == nullptr) {
    packet->code = Code::kAccessDenied;
    return send_back(packet);
  }
  if (packet->op == Op::kRead || packet->op == Op::kWrite) {
    move_bytes(*packet, place, host);
  } else {
    run_atomic(*packet, place, host);
  }
  if (++packet->piece < packet->piece_count) {
    push(world_->now_ns() + packet->piece_ns,
         {.kind = EventKind::kPiece, .connection = packet->connection, .packet = packet});
    return;
  }
  if (packet->op == Op::kWrite) host.domain_->count_written(*packet);
  send_back(packet);
}

void Network::move_bytes(Packet& packet, std::byte* place, Host& host) noexcept {
  const uint64_t skew = packet.remote.address.offset() % 64;
  const uint64_t lines = (skew + packet.bytes + 63) / 64;
  const uint32_t turn = packet.backward ? packet.piece_count - 1 - packet.piece : packet.piece;
  const uint64_t index = (packet.first_piece + turn) % packet.piece_count;
  const auto border = [&](uint64_t piece) {
    const uint64_t at = piece * lines / packet.piece_count * 64;
    return std::min<uint64_t>(at > skew ? at - skew : 0, packet.bytes);
  };
  const uint64_t begin = border(index);
  const size_t bytes = border(index + 1) - begin;
  if (bytes == 0) return;
  const std::span<std::byte> piece(packet.data() + begin, bytes);
  VisibleMemory* memory = host.memory_;
  if (memory == nullptr || place < memory->owner() || place >= memory->owner() + memory->bytes()) {
    if (packet.op == Op::kRead) {
      std::memcpy(piece.data(), place + begin, bytes);
    } else {
      std::memcpy(place + begin, piece.data(), bytes);
    }
    return;
  }
  const auto offset = static_cast<uint64_t>(place - memory->owner()) + begin;
  if (packet.op == Op::kWrite) return memory->store_from_outside(Offset{offset}, piece);
  memory->advance_random(world_->prng_);
  std::memcpy(piece.data(), memory->image() + offset, bytes);
}

void Network::run_atomic(Packet& packet, std::byte* place, Host& host) noexcept {
  VisibleMemory* memory = host.memory_;
  const bool logged =
      memory != nullptr && place >= memory->owner() && place < memory->owner() + memory->bytes();
  std::memcpy(&packet.value, place, sizeof(packet.value));
  uint64_t word = packet.value;
  if (packet.op == Op::kFetchAdd) word += packet.operand;
  if (packet.op == Op::kCompareSwap && word == packet.compare) word = packet.operand;
  std::array<std::byte, sizeof(word)> bytes{};
  std::memcpy(bytes.data(), &word, sizeof(word));
  if (logged) {
    memory->store_from_outside(Offset{static_cast<uint64_t>(place - memory->owner())}, bytes);
  } else {
    std::memcpy(place, bytes.data(), bytes.size());
  }
}

void Network::come_back(Packet* packet) {
  Connection& connection = *packet->connection;
  if (is_cut(connection)) {
    connection.returning.push_back(packet);
    return;
  }
  const End& poster = connection.ends[packet->from];
  Host* answerer = connection.ends[1 - packet->from].host;
  if (answerer != nullptr) answerer->make_visible(packet->log_position);
  if (packet->op == Op::kOpened) {
    if (!poster.dead && poster.channel != nullptr) {
      if (packet->code == Code::kOk && !connection.ends[1].dead) {
        poster.channel->opened();
      } else {
        poster.channel->give_up(Code::kUnavailable);
      }
    }
  } else if (!packet->abandoned && !poster.dead && poster.channel != nullptr) {
    poster.channel->finish(packet);
  }
  release(packet);
}

void Network::break_end(Connection& connection, uint8_t end) noexcept {
  End& broken = connection.ends[end];
  for (Packet* packet : std::exchange(connection.waiting[end], {})) release(packet);
  if (broken.dead || broken.channel == nullptr) return;
  broken.channel->give_up(Code::kUnavailable);
  const auto peer = static_cast<uint8_t>(1 - end);
  if (!connection.ends[peer].dead && !is_cut(connection)) {
    break_later(connection, peer, draw_delay_ns(connection), kAlways);
  }
}

}  // namespace refract::sim
