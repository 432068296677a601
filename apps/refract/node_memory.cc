// SPDX-License-Identifier: Apache-2.0
#include "apps/refract/node_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <utility>
#include <vector>

#include "apps/refract/terminal.h"

#include "refract/base/clock.h"
#include "refract/base/units.h"
#include "refract/memory/host/descriptor.h"
#include "refract/memory/host/region.h"

namespace refract::cli {
namespace {

constexpr uint16_t kRegionFilesMax = 250;
constexpr int kHeartbeat_ms = 100;

Reported<Descriptor> open_to_read(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file) return file;
  return report(Code::kSystem, fmt::format("cannot open {}: {}", in_quotes(path), errno_text(errno)),
                "name a file that is there, and call refract as the user who ran the node");
}

}  // namespace

// Waits until everything that the keeper offers is mapped; the server is not needed.
Reported<std::unique_ptr<NodeMemory>> NodeMemory::attach(const std::string& path, uint64_t timeout_ns) {
  std::unique_ptr<NodeMemory> memory(new NodeMemory(path));
  fabric::shm::ClientAttachment& attachment = memory->attachment_;
  const Clock& clock = system_clock();
  const uint64_t until_ns = clock.now_ns() + timeout_ns;
  if (auto begun = attachment.begin(); !begun) return report(begun.error());
  while (!attachment.complete()) {
    const auto progress = attachment.step();
    if (progress == fabric::shm::ClientAttachment::Progress::kEnded) return report(attachment.failure());
    if (progress == fabric::shm::ClientAttachment::Progress::kSomething) continue;
    if (clock.now_ns() >= until_ns) {
      return report(Code::kDeadlineExceeded, "the node's keeper does not answer",
                    "if it was stopped (SIGSTOP), let it continue (kill -CONT); or give a longer --timeout");
    }
    pollfd control{.fd = attachment.control(), .events = POLLIN, .revents = 0};
    (void)::poll(&control, 1, kHeartbeat_ms);
  }
  return memory;
}

std::span<const std::byte> NodeMemory::grown() {
  pollfd control{.fd = attachment_.control(), .events = POLLIN, .revents = 0};
  if (attachment_.ask_for_regions()) {
    (void)::poll(&control, 1, kHeartbeat_ms);
    (void)attachment_.step();
  }
  return space();
}

uint64_t NodeMemory::shard_count() const {
  return observe_u64(&attachment_.node_page().shard_count);
}

void wait_a_moment() {
  (void)::poll(nullptr, 0, 1);
}

Reported<RegionFiles> map_region_files(const Backing& backing) {
  std::vector<uint64_t> sizes;
  RegionFiles regions;
  for (uint16_t id = 0; id < kRegionFilesMax; ++id) {
    const auto bytes = existing_region_bytes(backing, id);
    if (!bytes) return report(bytes.error());
    if (*bytes == 0) break;
    // Behind the last whole page there is nothing that a mapping could reach.
    sizes.push_back(*bytes / kPageBytes * kPageBytes);
    regions.bytes += sizes.back();
  }
  if (regions.bytes == 0) {
    return report(Code::kSystem, fmt::format("there are no region files in {}", in_quotes(backing.folder)),
                  "name the folder that the node had as --memory-backing file:FOLDER");
  }
  auto addresses = AddressSpace::reserve(regions.bytes);
  if (!addresses) return report(addresses.error());
  regions.addresses = std::move(*addresses);
  uint64_t at = 0;
  for (const uint64_t bytes : sizes) {
    const auto file = open_to_read(region_path(backing, static_cast<uint16_t>(regions.count++)));
    if (!file) return report(file.error());
    if (bytes == 0) continue;
    auto mapped = regions.addresses.map(
        {.descriptor = file->get(), .file_offset = 0, .at = at, .bytes = bytes, .writable = false});
    if (!mapped) return report(mapped.error());
    at += bytes;
  }
  return regions;
}

Reported<RegionFiles> map_file(const std::string& path) {
  const auto file = open_to_read(path);
  if (!file) return report(file.error());
  struct stat facts{};
  if (::fstat(file->get(), &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size < 8) {
    return report(Code::kInvalidArgument, fmt::format("{} holds no region", in_quotes(path)),
                  "name a region's file, or the folder that a node keeps them in");
  }
  RegionFiles regions;
  regions.bytes = static_cast<uint64_t>(facts.st_size) / 8 * 8;
  regions.count = 1;
  // Of the last page, what lies behind the file's end reads as zeroes.
  const uint64_t mapped_bytes = (regions.bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  auto addresses = AddressSpace::reserve(mapped_bytes);
  if (!addresses) return report(addresses.error());
  regions.addresses = std::move(*addresses);
  auto mapped = regions.addresses.map(
      {.descriptor = file->get(), .file_offset = 0, .at = 0, .bytes = mapped_bytes, .writable = false});
  if (!mapped) return report(mapped.error());
  return regions;
}

Reported<std::string> whole_path(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> whole(::realpath(path.c_str(), nullptr), std::free);
  if (whole) return std::string(whole.get());
  return report(Code::kInvalidArgument, fmt::format("cannot open {}: {}", in_quotes(path), errno_text(errno)),
                "name the folder that the node had as --memory-backing file:FOLDER");
}

bool is_folder(const std::string& path) noexcept {
  struct stat facts{};
  return ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

}  // namespace refract::cli
