// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/shm/attach.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "refract/base/object_bytes.h"
#include "refract/fabric/shm/listen.h"

namespace refract::fabric::shm {
namespace {

constexpr int kMadvisePopulateRead = 22;  // MADV_POPULATE_READ: Linux 5.14.
constexpr int kMessagesATurn = 8;

}  // namespace

Reported<> ClientAttachment::begin() {
  auto connected = connect_to(path_);
  if (!connected && connected.error().code == Code::kOverloaded) return {};
  if (!connected) return report(connected.error());
  control_ = std::move(*connected);
  Hello hello{};
  hello.head = head_of(MessageKind::kHello);
  hello.version_lowest = kWireVersionLowest;
  hello.version_highest = kWireVersionHighest;
  hello.pid = static_cast<uint32_t>(::getpid());
  // A keeper that refuses at once (no descriptors left) has closed already; what it said is read by step.
  (void)send_message(control_.get(), object_bytes(hello));
  return {};
}

ClientAttachment::Progress ClientAttachment::step() {
  if (!control_) {
    auto begun = begin();
    if (!begun) failure_ = begun.error();
    return begun ? Progress::kNothing : Progress::kEnded;
  }
  Progress progress = Progress::kNothing;
  for (int turn = 0; turn < kMessagesATurn; ++turn) {
    alignas(8) std::array<std::byte, sizeof(Regions)> message;
    std::array<Descriptor, kRegionsAMessage + 3> descriptors;
    const ReceivedMessage received = receive_message(control_.get(), message, descriptors);
    if (received.outcome == ReceivedMessage::Outcome::kNothing) return progress;
    if (received.outcome == ReceivedMessage::Outcome::kEnded) return Progress::kEnded;
    if (received.truncated) {
      (void)broken(Code::kSystem, "this process has no file descriptors left for the node's memory");
      failure_.next = "raise the limit of open files (ulimit -n)";
      return Progress::kEnded;
    }
    if (!take(std::span(message).first(received.bytes),
              std::span(descriptors).first(received.descriptor_count))) {
      return Progress::kEnded;
    }
    progress = Progress::kSomething;
  }
  return progress;
}

bool ClientAttachment::take(std::span<const std::byte> message, std::span<Descriptor> descriptors) {
  MessageHead head{};
  if (message.size() < sizeof(head)) return broken(Code::kMalformed, "it sent half a message");
  std::memcpy(&head, message.data(), sizeof(head));
  if (head.magic != kWireMagic) return broken(Code::kMalformed, "it is no node of Refract");
  const auto kind = static_cast<MessageKind>(head.kind);
  if (kind == MessageKind::kServerChanged) return true;
  if (kind == MessageKind::kWelcome && message.size() == sizeof(Welcome) && !welcomed_) {
    Welcome welcome{};
    std::memcpy(&welcome, message.data(), sizeof(welcome));
    return take_welcome(welcome, descriptors);
  }
  if (kind == MessageKind::kRefused && message.size() == sizeof(Refused)) {
    Refused why{};
    std::memcpy(&why, message.data(), sizeof(why));
    return refused(why);
  }
  if (kind == MessageKind::kRegions && message.size() >= offsetof(Regions, entry) && welcomed_) {
    Regions regions{};
    std::memcpy(&regions, message.data(), std::min(message.size(), sizeof(regions)));
    const size_t bytes = offsetof(Regions, entry) + size_t{regions.count} * sizeof(RegionEntry);
    if (regions.count > kRegionsAMessage || regions.count != descriptors.size() || bytes != message.size()) {
      return broken(Code::kMalformed, "it sent a list of regions that contradicts itself");
    }
    return take_regions(regions, descriptors);
  }
  return broken(Code::kMalformed,
                fmt::format("it sent message {} of {} bytes out of turn", head.kind, message.size()));
}

bool ClientAttachment::take_welcome(const Welcome& welcome, std::span<Descriptor> descriptors) {
  if (descriptors.size() != 3 || pin_tables_in(welcome.connection_bytes) == 0 ||
      welcome.region_count > kRegionsMax) {
    return broken(Code::kMalformed, "its welcome is of another kind than this client knows");
  }
  if (welcome.version < kWireVersionLowest || welcome.version > kWireVersionHighest) {
    return broken(
        Code::kUnsupported,
        fmt::format("it chose version {} of the shared-memory protocol, this client speaks {} to {}",
                    welcome.version, kWireVersionLowest, kWireVersionHighest));
  }
  // What could be shortened could kill us by a load behind its end.
  if (!has_fixed_length(descriptors[0].get(), kNodePageBytes) ||
      !has_fixed_length(descriptors[1].get(), welcome.connection_bytes)) {
    return broken(Code::kMalformed, "its memory is not sealed");
  }
  auto page = map_shared(descriptors[0].get(), kNodePageBytes, /*writable=*/false);
  if (!page) return broken(page.error().code, page.error().what);
  auto memory =
      map_shared(descriptors[1].get(), welcome.connection_bytes, /*writable=*/true, kConnectionBytes);
  if (!memory) return broken(memory.error().code, memory.error().what);
  page_ = std::move(*page);
  if (observe_u64(&node_page().magic) != kNodePageMagic) {
    return broken(Code::kMalformed, "its node page is none");
  }
  if (const uint64_t layout = observe_u64(&node_page().layout_version); layout != kNodePageVersion) {
    return broken(
        Code::kUnsupported,
        fmt::format("its node page has layout version {}, this client reads {}; use the client of the "
                    "node's release, or its address tcp:HOST:PORT",
                    layout, kNodePageVersion));
  }
  if (welcome.space_bytes_max != 0) {
    auto space = AddressSpace::reserve(welcome.space_bytes_max);
    if (!space) {
      failure_ = space.error();
      return false;
    }
    space_ = std::move(*space);
    space_bytes_ = welcome.space_bytes_max;
  }
  memory_ = std::move(*memory);
  doorbell_ = std::move(descriptors[2]);
  id_ = welcome.connection;
  version_ = welcome.version;
  regions_promised_ = welcome.region_count;
  regions_.reserve(kRegionsMax);  // regions() stays valid while more come.
  welcomed_ = true;
  return true;
}

bool ClientAttachment::take_regions(const Regions& message, std::span<Descriptor> descriptors) {
  for (uint32_t i = 0; i < message.count; ++i) {
    const size_t row = size_t{message.first} + i;
    if (row < regions_.size()) continue;  // Asked for twice.
    if (row != regions_.size() || row >= kRegionsMax) {
      return broken(Code::kMalformed, "it left out a region");
    }
    if (!map_region(message.entry[i], descriptors[i].get())) return false;
  }
  return true;
}

bool ClientAttachment::map_region(const RegionEntry& entry, int fd) {
  struct stat status{};
  if (entry.base < mapped_bytes() || entry.base > space_bytes_ || entry.bytes > space_bytes_ - entry.base ||
      entry.bytes == 0 || entry.region > UINT16_MAX || ::fstat(fd, &status) != 0 ||
      static_cast<uint64_t>(status.st_size) < entry.bytes) {
    return broken(Code::kMalformed, fmt::format("its region {} does not fit", entry.region));
  }
  auto mapped = space_.map(
      {.descriptor = fd, .file_offset = 0, .at = entry.base, .bytes = entry.bytes, .writable = false});
  if (!mapped) {
    failure_ = mapped.error();
    return false;
  }
  // Where the kernel does not know it, pages come in by faults.
  if (options_.populate) (void)::madvise(space_.base() + entry.base, entry.bytes, kMadvisePopulateRead);
  regions_.push_back({static_cast<uint16_t>(entry.region), entry.base, entry.bytes, {entry.key}});
  return true;
}

bool ClientAttachment::refused(const Refused& refused) {
  const std::string text(refused.text, ::strnlen(refused.text, sizeof(refused.text)));
  const size_t newline = text.find('\n');
  failure_ = {code_from_wire(refused.code), text.substr(0, newline),
              newline == std::string::npos ? "" : text.substr(newline + 1)};
  return false;
}

bool ClientAttachment::broken(Code code, std::string what) {
  failure_ = {code, fmt::format("cannot attach to {}: {}", path_, what),
              code == Code::kMalformed ? "use a client and a node of neighbouring releases" : ""};
  return false;
}

bool ClientAttachment::has_unmapped_regions() const noexcept {
  return welcomed_ && observe_u64(&node_page().region_count) > regions_.size();
}

bool ClientAttachment::ask_for_regions() noexcept {
  if (!control_ || !has_unmapped_regions()) return false;
  GetRegions request{};
  request.head = head_of(MessageKind::kGetRegions);
  request.have = static_cast<uint32_t>(regions_.size());
  return send_message(control_.get(), object_bytes(request));
}

void ClientAttachment::end() noexcept {
  // Another process may hold copies (a fork of ours), so closing alone would not be heard.
  if (control_) (void)::shutdown(control_.get(), SHUT_RDWR);
  if (doorbell_) (void)::shutdown(doorbell_.get(), SHUT_RDWR);
  control_ = Descriptor();
  doorbell_ = Descriptor();
}

const std::byte* ClientAttachment::find(RemotePointer address, RemoteKey key, uint64_t bytes) const noexcept {
  for (const OfferedRegion& region : regions_) {
    if (region.region != address.region()) continue;
    if (region.key != key || address.offset() > region.bytes || bytes > region.bytes - address.offset()) {
      return nullptr;
    }
    return space_.base() + region.base + address.offset();
  }
  return nullptr;
}

}  // namespace refract::fabric::shm
