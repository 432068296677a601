// SPDX-License-Identifier: Apache-2.0
// What lies between the hosts of a World: packets, connections, and the queue of everything that will happen.
//
// Private to the simulator. A packet is one request on its way to the peer and back; packets are pooled with
// their bytes, so that posting and polling allocate nothing once warm.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/fabric/channel.h"
#include "refract/fabric/sim/world.h"

namespace refract::sim {

class SimChannel;

// One of the two ends of a connection. It stays when its channel is gone.
struct End {
  Host* host = nullptr;
  SimChannel* channel = nullptr;  // Null: not made yet, or given up.
  uint64_t arrival_ns = 0;        // At the peer, of the latest packet sent from here: keeps the order.
  uint64_t effect_ns = 0;         // Likewise, when that packet took effect where the peer has a Machine.
  bool dead = false;              // Closed, broken or crashed; nothing arrives here any more.
};

struct Packet;

struct Connection {
  std::array<End, 2> ends;
  std::array<std::vector<Packet*>, 2>
      waiting;                     // Sent by that end; stopped by a cut or a paused target, in order.
  std::vector<Packet*> returning;  // Stopped by a cut on the way back.
  uint64_t cut_count = 0;          // Tells a break that belongs to a cut healed since.
};

// What happens to a packet, or without one, at a moment.
enum class EventKind : uint8_t {
  kArrive,  // At the peer: it is delivered, executed, or opens or closes the connection.
  kPiece,   // A one-sided request continues with its next piece.
  kReturn,  // Back at the poster.
  kBreak,   // The provider gives the connection's end up.
  kCall,    // World::after.
};

// kOpened: the wish to connect. kClosed: the poster has closed, behind all that it posted.
struct Packet {
  fabric::Op op = fabric::Op::kSend;
  Code code = Code::kOk;
  uint8_t from = 0;         // The end that posted it.
  bool served = false;      // By the target's Machine; its effect is due when it arrives the second time.
  bool abandoned = false;   // The poster has been told kUnavailable; the packet may still take effect.
  uint32_t references = 0;  // One while it is under way, one while its poster waits for it.
  Connection* connection = nullptr;
  uint64_t token = 0;
  fabric::LocalSpan local = {};
  fabric::RemoteSpan remote = {};
  uint64_t compare = 0;
  uint64_t operand = 0;
  uint64_t value = 0;
  uint64_t log_position = 0;  // The poster's stores that come before it.
  uint64_t piece_ns = 0;      // Between pieces; 0: all at once.
  uint32_t piece = 0;
  uint32_t piece_count = 1;
  uint32_t first_piece = 0;
  bool backward = false;
  size_t bytes = 0;
  std::vector<uint64_t> storage;  // `bytes`, rounded up; keeps its capacity in the pool.

  [[nodiscard]] std::byte* data() noexcept { return reinterpret_cast<std::byte*>(storage.data()); }
  void set_bytes(size_t count) {
    bytes = count;
    storage.resize((count + 7) / 8);
  }
};

class Network {
 public:
  explicit Network(World* world);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  ~Network();

  [[nodiscard]] Packet* take_packet();
  void release(Packet* packet) noexcept;

  // A staged packet leaves its host now.
  void launch(Packet* packet) noexcept;
  // An end gives up: tells the peer, behind everything launched before.
  void send_close(Connection& connection, uint8_t from) noexcept;
  // The receiver has polled a message: its poster's place becomes free.
  void acknowledge(Packet* message) noexcept;
  [[nodiscard]] Connection& make_connection(Host& from);
  void send_open(Connection& connection, std::string_view address);

  void call_after(uint64_t ns, std::function<void()> what);
  void cut(Host& a, Host& b);
  void heal(Host& a, Host& b);
  void resume(Host& host);
  // The host's process is dead; of what it had under way, only what it posted up to `log_position` may
  // arrive.
  void host_died(Host& host, uint64_t log_position) noexcept;

  [[nodiscard]] uint64_t next_event_ns() const noexcept;
  void run_event();
  [[nodiscard]] LinkOptions& link(const Host& a, const Host& b);

 private:
  struct Event {
    uint64_t at_ns = 0;
    uint64_t tie = 0;  // Seeded: of two things at one moment either may come first.
    uint64_t sequence = 0;
    EventKind kind = EventKind::kCall;
    uint8_t end = 0;
    Connection* connection = nullptr;
    Packet* packet = nullptr;
    uint64_t value = 0;  // kBreak: the cut it belongs to, or kAlways. kCall: the index of what to call.
    // Of a heap whose front comes first.
    bool operator<(const Event& other) const noexcept {
      if (at_ns != other.at_ns) return at_ns > other.at_ns;
      return tie != other.tie ? tie > other.tie : sequence > other.sequence;
    }
  };
  using Pair = std::pair<size_t, size_t>;
  static constexpr uint64_t kAlways = UINT64_MAX;

  [[nodiscard]] static Pair pair_of(const Host& a, const Host& b) noexcept;
  [[nodiscard]] bool is_cut(const Connection& connection) const noexcept;
  [[nodiscard]] const LinkOptions& link_of(const Connection& connection) const noexcept;
  [[nodiscard]] uint64_t draw_delay_ns(const Connection& connection) noexcept;
  void push(uint64_t at_ns, Event event) noexcept;
  // Behind all that its end has sent before.
  void send(Packet* packet) noexcept;
  void send_back(Packet* packet) noexcept;
  // The target's hardware works on it first: true where it takes effect only later.
  [[nodiscard]] bool is_served_later(Packet* packet);
  void draw_pieces(Packet& packet) noexcept;
  void break_later(Connection& connection, uint8_t end, uint64_t delay_ns, uint64_t cut) noexcept;
  // What waits continues, in front of what is still under way.
  void go_on(Connection& connection) noexcept;
  // Takes what the end has sent out of the queue, in the order of arrival.
  [[nodiscard]] std::vector<Packet*> take_under_way(Connection& connection, uint8_t end);

  void handle(const Event& event);
  void arrive(Packet* packet);
  void open(Packet* packet);
  void run_piece(Packet* packet);
  void move_bytes(Packet& packet, std::byte* place, Host& host) noexcept;
  void run_atomic(Packet& packet, std::byte* place, Host& host) noexcept;
  void come_back(Packet* packet);
  void break_end(Connection& connection, uint8_t end) noexcept;

  World* world_;
  std::vector<Event> events_;  // A heap.
  uint64_t next_sequence_ = 0;
  std::vector<std::function<void()>> calls_;
  std::vector<size_t> free_calls_;
  std::vector<std::unique_ptr<Packet>> packets_;
  std::vector<Packet*> free_packets_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::map<Pair, LinkOptions> links_;
  std::vector<Pair> cuts_;
};

}  // namespace refract::sim
