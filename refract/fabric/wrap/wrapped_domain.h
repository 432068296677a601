// SPDX-License-Identifier: Apache-2.0
// What the decorators share: a domain round another domain, whose channels stand for the inner ones.
//
// A decorator overrides the hooks that it needs; everything else passes through. Decorators may be stacked.
// The inner domain must outlive the outer one, is used through it alone, and is not polled after the outer
// one has gone.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "refract/fabric/channel.h"

namespace refract::fabric {

class WrappedDomain;

class WrappedChannel final : public Channel {
 public:
  WrappedChannel(WrappedDomain& domain, Channel& inner) noexcept;

  [[nodiscard]] size_t post(std::span<const Request> requests) noexcept override;
  [[nodiscard]] size_t room() const noexcept override;
  [[nodiscard]] const Capabilities& capabilities() const noexcept override { return capabilities_; }
  [[nodiscard]] LocalView local_view() const noexcept override;
  [[nodiscard]] bool refresh_local_view() noexcept override;
  void flush() noexcept override {
    if (inner_ != nullptr) inner_->flush();
  }
  void close() noexcept override;

  // Null once the inner channel has ended; the outer end may still be on its way.
  [[nodiscard]] Channel* inner() const noexcept { return inner_; }

  // A decorator's own counters for this channel.
  size_t posted_since_flush = 0;
  size_t allowance = SIZE_MAX;
  size_t delivered = 0;

 private:
  friend class WrappedDomain;
  WrappedDomain* domain_;
  Channel* inner_;
  Capabilities capabilities_;
  bool ended_ = false;
};

class WrappedDomain : public Domain {
 public:
  explicit WrappedDomain(Domain& inner) noexcept : inner_(&inner) {}
  ~WrappedDomain() override;
  WrappedDomain(const WrappedDomain&) = delete;
  WrappedDomain& operator=(const WrappedDomain&) = delete;

  [[nodiscard]] std::string_view provider() const noexcept override { return inner_->provider(); }
  [[nodiscard]] size_t poll(std::span<Completion> completions) noexcept final;
  void flush() noexcept override { inner_->flush(); }
  [[nodiscard]] Reported<RemoteKey> register_region(const RegionSpec& spec) override {
    return inner_->register_region(spec);
  }
  uint64_t revoke_region(uint16_t region) noexcept override { return inner_->revoke_region(region); }
  [[nodiscard]] Reported<Channel*> connect(std::string_view address) override;
  [[nodiscard]] bool prepare_sleep() noexcept override { return inner_->prepare_sleep(); }
  void woke() noexcept override { inner_->woke(); }
  [[nodiscard]] std::span<const int> wake_descriptors() const noexcept override {
    return inner_->wake_descriptors();
  }

 protected:
  // Hooks. REQUIRES of do_post: channel.inner() is not null.
  [[nodiscard]] virtual size_t do_post(WrappedChannel& channel, std::span<const Request> requests) noexcept;
  [[nodiscard]] virtual size_t do_room(const WrappedChannel& channel) const noexcept;
  // Fills completions whose channels are wrapped ones already.
  [[nodiscard]] virtual size_t take(std::span<Completion> completions) noexcept;

  [[nodiscard]] size_t poll_inner(std::span<Completion> completions) noexcept;
  [[nodiscard]] std::span<const std::unique_ptr<WrappedChannel>> channels() const noexcept {
    return channels_;
  }
  [[nodiscard]] Domain& inner() const noexcept { return *inner_; }

 private:
  friend class WrappedChannel;
  [[nodiscard]] WrappedChannel& wrapper_of(Channel& inner);

  Domain* inner_;
  std::vector<std::unique_ptr<WrappedChannel>> channels_;
  bool some_ended_ = false;
};

}  // namespace refract::fabric
