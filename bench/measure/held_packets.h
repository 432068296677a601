// SPDX-License-Identifier: Apache-2.0
// Two TUN devices and a thread between them, which holds each packet back for as long as a path of a given
// delay and rate would, and which loses, repeats or delays those that a PacketFates picks. Packets may stay
// as large as the stack makes them (up to 64 KiB, cut in segments only on paper), so that one thread carries
// more than 1 GB/s each way.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "refract/base/report.h"
#include "refract/memory/host/descriptor.h"

namespace refract::bench {

// A TUN device of the calling thread's network namespace; it goes with its descriptor. As root.
// `large_packets`: the stack hands over more than an MTU at once.
[[nodiscard]] Reported<Descriptor> open_tun(const std::string& name, bool large_packets);

// What becomes of each packet.
class PacketFates {
 public:
  struct Fate {
    uint32_t copies = 1;    // 0: lost.
    uint64_t delay_ns = 0;  // Beyond that of the path; packets behind it may overtake it.
  };
  virtual ~PacketFates() = default;
  // `packet` begins with the header of IP. Called by the thread that carries the packets, and by no other.
  [[nodiscard]] virtual Fate fate_of(std::span<const std::byte> packet) noexcept = 0;
};

class HeldPackets {
 public:
  struct Options {
    uint64_t delay_ns = 0;             // Each way.
    uint64_t bytes_per_s = 0;          // Each way, headers included.
    size_t held_bytes_max = 64 << 20;  // Each way; beyond it packets are lost, as in a router.
    PacketFates* fates = nullptr;      // Outlives this. Null: every packet arrives once, in order.
  };
  HeldPackets(Descriptor here, Descriptor there, const Options& options);
  HeldPackets(const HeldPackets&) = delete;
  HeldPackets& operator=(const HeldPackets&) = delete;
  ~HeldPackets();

 private:
  struct Packet {
    uint64_t due_ns = 0;
    std::vector<std::byte> bytes;
    size_t used = 0;
  };
  struct Way {
    int from = -1;
    int to = -1;
    uint64_t busy_until_ns = 0;  // Until when the packets before fill the path.
    size_t held_bytes = 0;
    std::deque<Packet> held;  // The one that is due first stands first.
  };

  void run();
  // How many packets came in or went out.
  size_t take(Way& way);
  size_t release(Way& way);
  [[nodiscard]] Packet take_spare();
  void hold(Way& way, Packet packet);
  void wait();

  Options options_;
  Descriptor here_;
  Descriptor there_;
  Descriptor stop_;  // An eventfd.
  std::array<Way, 2> ways_;
  std::vector<Packet> spare_;
  std::jthread thread_;
};

}  // namespace refract::bench
