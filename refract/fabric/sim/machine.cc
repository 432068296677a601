// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/sim/machine.h"

#include <algorithm>
#include <utility>

#include "refract/base/check.h"

namespace refract::sim {

Machine::Machine(MachineOptions options, Machine* beside)
    : options_(std::move(options)), beside_(beside), cores_(options_.cores, 0) {
  REFRACT_CHECK(options_.cores > 0 && options_.packet_bytes_max > 0);
}

// Rounded up, so that a port is never faster than it says.
uint64_t Machine::wire_ns(uint64_t bytes) const noexcept {
  if (options_.bytes_per_us == 0) return 0;
  return (bytes * 1'000 + options_.bytes_per_us - 1) / options_.bytes_per_us;
}

uint64_t Machine::transmit(uint64_t now_ns, uint64_t wire_bytes) noexcept {
  if (beside_ != nullptr) return beside_->transmit(now_ns, wire_bytes);
  facts_.sent_bytes += wire_bytes;
  if (is_one_packet(wire_bytes)) return passes_between(sending_, now_ns, wire_bytes);
  sending_.all_ns = std::max(now_ns, sending_.all_ns) + wire_ns(wire_bytes);
  return sending_.all_ns;
}

// The bytes come in while they leave the other end, so the port is busy with them up to `at_ns` already.
uint64_t Machine::receive(uint64_t at_ns, uint64_t wire_bytes) noexcept {
  if (beside_ != nullptr) return beside_->receive(at_ns, wire_bytes);
  facts_.received_bytes += wire_bytes;
  if (is_one_packet(wire_bytes)) {
    const uint64_t began_ns = at_ns - std::min(at_ns, wire_ns(wire_bytes));
    return passes_between(receiving_, began_ns, wire_bytes);
  }
  receiving_.all_ns = std::max(at_ns, receiving_.all_ns + wire_ns(wire_bytes));
  return receiving_.all_ns;
}

uint64_t Machine::passes_between(Lanes& lanes, uint64_t from_ns, uint64_t wire_bytes) const noexcept {
  const uint64_t ns = wire_ns(wire_bytes);
  lanes.packets_ns = std::max(from_ns, lanes.packets_ns) + ns;
  lanes.all_ns = std::max(lanes.all_ns + ns, lanes.packets_ns);
  return lanes.packets_ns;
}

uint64_t Machine::serve(uint64_t now_ns, const Arrival& arrival) {
  ++facts_.arrivals;
  uint64_t at_ns = now_ns;
  if (arrival.op != fabric::Op::kSend && options_.one_sided_gap_ns > 0) {
    uint64_t& next_ns = beside_ != nullptr ? beside_->next_one_sided_ns_ : next_one_sided_ns_;
    at_ns = std::max(at_ns, next_ns);
    next_ns = at_ns + options_.one_sided_gap_ns;
  }
  if (!options_.work) return at_ns;
  const Work work = options_.work(arrival);
  if (work.core_ns > 0) {
    std::ranges::pop_heap(cores_, std::greater<>());
    cores_.back() = std::max(at_ns, cores_.back()) + work.core_ns;
    at_ns = cores_.back();
    std::ranges::push_heap(cores_, std::greater<>());
    facts_.core_busy_ns += work.core_ns;
  }
  return at_ns + work.delay_ns;
}

uint64_t Machine::with_headers(size_t bytes, uint32_t header_bytes) const noexcept {
  const uint64_t most = options_.packet_bytes_max;
  const uint64_t packets = std::max<uint64_t>((bytes + most - 1) / most, 1);
  return bytes + packets * header_bytes;
}

uint64_t Machine::message_wire_bytes(size_t bytes) const noexcept {
  return with_headers(bytes, options_.message_header_bytes);
}

uint64_t Machine::request_wire_bytes(size_t bytes) const noexcept {
  return with_headers(bytes, options_.one_sided_header_bytes) + options_.one_sided_request_bytes;
}

uint64_t Machine::answer_wire_bytes(size_t bytes) const noexcept {
  return with_headers(bytes, options_.one_sided_header_bytes);
}

}  // namespace refract::sim
