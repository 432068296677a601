// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/messages/shared_text.h"

#include <utility>

namespace refract::doors::redis {

struct SharedText::Block {
  const std::string text;
  std::atomic<size_t>& tally;
  std::atomic<size_t> holders = 1;
};

SharedText::SharedText(std::string text, std::atomic<size_t>& tally)
    : block_(new Block{.text = std::move(text), .tally = tally}) {
  tally.fetch_add(block_->text.size(), std::memory_order_relaxed);
}

SharedText::SharedText(const SharedText& other) noexcept : block_(other.block_) {
  if (block_ != nullptr) block_->holders.fetch_add(1, std::memory_order_relaxed);
}

SharedText::SharedText(SharedText&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}

SharedText& SharedText::operator=(const SharedText& other) noexcept {
  SharedText copy(other);
  std::swap(block_, copy.block_);
  return *this;
}

SharedText& SharedText::operator=(SharedText&& other) noexcept {
  SharedText moved(std::move(other));
  std::swap(block_, moved.block_);
  return *this;
}

// The last holder sees all that the others have done before.
SharedText::~SharedText() {
  if (block_ == nullptr || block_->holders.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  block_->tally.fetch_sub(block_->text.size(), std::memory_order_relaxed);
  delete block_;
}

std::string_view SharedText::text() const noexcept {
  return block_ == nullptr ? std::string_view() : std::string_view(block_->text);
}

}  // namespace refract::doors::redis
