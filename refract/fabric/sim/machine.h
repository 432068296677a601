// SPDX-License-Identifier: Apache-2.0
// What a host's hardware takes, for runs that ask the simulator how fast something is: a network port with so
// many bytes a time in each direction, a network card that begins so many one-sided requests a second, and
// cores that work on what arrives, first come, first served.
//
// A host has none unless Host::install gave it one, and then does everything in no time: tests of what is
// right want disorder, not costs. Nothing here is drawn by chance. See docs/design/008-simulation.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "refract/fabric/channel.h"

namespace refract::sim {

// What has arrived at a host: a message, or a one-sided request to its memory.
struct Arrival {
  fabric::Op op = fabric::Op::kSend;
  std::span<const std::byte> message;  // kSend only.
  size_t bytes = 0;                    // Of the message, or to be read or written.
};

struct Work {
  uint64_t core_ns = 0;   // That a core is busy with it.
  uint64_t delay_ns = 0;  // That it is on its way for longer, with no core busy.
};

struct MachineOptions {
  uint64_t bytes_per_us = 0;  // Of the port, each way; 0: without limit.
  // What a packet takes on the wire besides its bytes, from preamble to gap; and how many bytes fit into one.
  uint32_t message_header_bytes = 0;
  uint32_t one_sided_header_bytes = 0;
  uint32_t packet_bytes_max = 1024;
  // What fits one packet passes between the packets of what is longer, as the queues of a card take turns.
  // Else all goes first come, first served.
  bool interleaves = false;
  // What a one-sided request takes besides (address, key, length); its answer has no such part.
  uint32_t one_sided_request_bytes = 0;
  uint64_t one_sided_gap_ns = 0;  // From the beginning of one one-sided request to that of the next.
  uint32_t cores = 1;             // That do the work; REQUIRES: at least 1.
  // Asked once for each arrival; null: there is no work. What a core works on is delivered when it has ended.
  std::function<Work(const Arrival&)> work = {};
};

class Machine {
 public:
  // `beside`: a part of the same hardware, whose port and network card this one shares, and which outlives
  // it; null: it has its own.
  explicit Machine(MachineOptions options, Machine* beside = nullptr);

  // When the last of `wire_bytes` that are ready at `now_ns` has left through the port.
  [[nodiscard]] uint64_t transmit(uint64_t now_ns, uint64_t wire_bytes) noexcept;
  // When the last of `wire_bytes` has come in, which, with nothing else in the way, would be at `at_ns`.
  [[nodiscard]] uint64_t receive(uint64_t at_ns, uint64_t wire_bytes) noexcept;
  // When what arrives at `now_ns` takes effect.
  [[nodiscard]] uint64_t serve(uint64_t now_ns, const Arrival& arrival);

  [[nodiscard]] uint64_t message_wire_bytes(size_t bytes) const noexcept;
  // `bytes` of data go along with a WRITE's request and a READ's answer.
  [[nodiscard]] uint64_t request_wire_bytes(size_t bytes) const noexcept;
  [[nodiscard]] uint64_t answer_wire_bytes(size_t bytes) const noexcept;

  // Since the beginning: what explains which part was the narrow one. Bytes are counted where the port is.
  struct Facts {
    uint64_t sent_bytes = 0;  // On the wire, likewise received.
    uint64_t received_bytes = 0;
    uint64_t arrivals = 0;
    uint64_t core_busy_ns = 0;  // Of all cores together.
  };
  [[nodiscard]] const Facts& facts() const noexcept { return facts_; }
  [[nodiscard]] const MachineOptions& options() const noexcept { return options_; }

 private:
  // One direction of the port: when each lane is free again.
  struct Lanes {
    uint64_t all_ns = 0;
    uint64_t packets_ns = 0;  // Of what fits one packet.
  };
  [[nodiscard]] uint64_t wire_ns(uint64_t bytes) const noexcept;
  // Both lanes are busy with it.
  [[nodiscard]] uint64_t passes_between(Lanes& lanes, uint64_t from_ns, uint64_t wire_bytes) const noexcept;
  [[nodiscard]] bool is_one_packet(uint64_t wire_bytes) const noexcept {
    return options_.interleaves && wire_bytes <= options_.packet_bytes_max;
  }
  [[nodiscard]] uint64_t with_headers(size_t bytes, uint32_t header_bytes) const noexcept;

  MachineOptions options_;
  Machine* beside_;
  Lanes sending_;
  Lanes receiving_;
  uint64_t next_one_sided_ns_ = 0;
  std::vector<uint64_t> cores_;  // When each is free; a heap whose front is the earliest.
  Facts facts_;
};

}  // namespace refract::sim
