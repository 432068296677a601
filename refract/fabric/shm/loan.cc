// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/shm/loan.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "refract/fabric/shm/descriptors.h"
#include "refract/memory/remote_visible.h"

namespace refract::fabric::shm {
namespace {

constexpr size_t kBellBytesATurn = 4096;
// A client that rings more often than this without lending waits for its loan without success.
constexpr int kTurnsForADescriptor = 16;

}  // namespace

bool Loans::hear(int doorbell) noexcept {
  std::array<std::byte, kBellBytesATurn> bytes;
  std::array<Descriptor, 1> descriptor;
  const ReceivedMessage received = receive_message(doorbell, bytes, descriptor);
  if (received.outcome == ReceivedMessage::Outcome::kNothing) return true;
  if (received.outcome == ReceivedMessage::Outcome::kEnded) return false;
  if (received.descriptor_count == 0) return true;
  if (descriptors_held_ == descriptors_.size()) {
    // A client that sends more without saying what they are for loses the oldest.
    std::ranges::rotate(descriptors_, descriptors_.begin() + 1);
    --descriptors_held_;
  }
  descriptors_[descriptors_held_++] = std::move(descriptor[0]);
  return true;
}

// It was sent before the frame, so it is here. Those before it belong to no frame.
Descriptor Loans::find_descriptor(uint64_t inode, int doorbell) noexcept {
  for (int turn = 0; turn < kTurnsForADescriptor; ++turn) {
    while (descriptors_held_ > 0) {
      Descriptor oldest = std::move(descriptors_[0]);
      std::ranges::rotate(descriptors_, descriptors_.begin() + 1);
      --descriptors_held_;
      struct stat status{};
      if (::fstat(oldest.get(), &status) == 0 && status.st_ino == inode) return oldest;
    }
    if (!hear(doorbell)) break;
  }
  return {};
}

bool Loans::lend(std::span<const std::byte> payload, int doorbell) noexcept {
  LendFrame frame{};
  if (payload.size() != sizeof(frame)) return false;
  copy_possibly_torn(&frame, payload.data(), sizeof(frame));
  if (frame.region < kLentRegionFirst || frame.region > UINT16_MAX || frame.bytes == 0) return false;
  const Descriptor descriptor = find_descriptor(frame.inode, doorbell);
  forget(frame.region);
  if (!descriptor || !has_room(frame.bytes)) return true;
  Result<SharedView> view = SharedView::map(descriptor.get(), frame.bytes);
  if (!view) return true;
  bytes_ += frame.bytes;
  ++account_.loans;
  loans_.push_back(
      {.region = static_cast<uint16_t>(frame.region), .key = {frame.key}, .view = std::move(*view)});
  return true;
}

bool Loans::take_back(std::span<const std::byte> payload) noexcept {
  TakeBackFrame frame{};
  if (payload.size() != sizeof(frame)) return false;
  copy_possibly_torn(&frame, payload.data(), sizeof(frame));
  forget(frame.region);
  return true;
}

void Loans::forget(uint64_t region) noexcept {
  std::erase_if(loans_, [&](const Loan& loan) {
    if (loan.region != region) return false;
    bytes_ -= loan.view.bytes().size();
    --account_.loans;
    return true;
  });
}

bool Loans::has_room(uint64_t bytes) const noexcept {
  const LoanLimits& limits = account_.limits;
  return loans_.size() < limits.loans_max && account_.loans < limits.all_max &&
         bytes <= limits.bytes_max - bytes_;
}

const std::byte* Loans::find(const RemoteSpan& remote, uint64_t bytes) const noexcept {
  for (const Loan& loan : loans_) {
    if (loan.region != remote.address.region()) continue;
    const std::span<const std::byte> lent = loan.view.bytes();
    const uint64_t offset = remote.address.offset();
    if (loan.key != remote.key || offset > lent.size() || bytes > lent.size() - offset) return nullptr;
    return lent.data() + offset;
  }
  return nullptr;
}

}  // namespace refract::fabric::shm
