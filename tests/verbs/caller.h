// SPDX-License-Identifier: Apache-2.0
// A serving end and clients of it, each a domain of its own over a device of its own choice, for tests in
// which something breaks for one of them and must not break for another.
//
// A Caller reads without pause, looks at each byte that it gets, and writes down what it is told. All of them
// are moved by the one thread of a test, by turn().
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "refract/fabric/tcp/test_node.h"
#include "refract/fabric/verbs/domain.h"

namespace refract::fabric::verbs {

// The device that lies on this network interface of the machine, veth0 or veth1, by the address that
// REFRACT_VERBS_FAMILY asks for. Devices are listed in the order of their making, which a test may change.
[[nodiscard]] DeviceWish wish_on(std::string_view interface);

class Serving {
 public:
  static constexpr uint16_t kRegion = 9;
  static constexpr size_t kRegionBytes = 65'536;
  [[nodiscard]] static std::byte pattern(size_t at) { return static_cast<std::byte>(at * 13 + at / 251); }

  explicit Serving(const DeviceWish& device, const Options& options = {});
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;
  ~Serving();

  void turn();

  [[nodiscard]] ServerDomain& domain() { return *domain_; }
  [[nodiscard]] const std::string& address() const { return node_.address(); }
  [[nodiscard]] RemoteKey key() const { return key_; }
  // Open at the moment, in the order in which they opened.
  [[nodiscard]] const std::vector<Channel*>& channels() const { return channels_; }
  [[nodiscard]] size_t messages() const { return messages_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  std::unique_ptr<std::byte[], Free> region_;
  tcp::TestNode node_;
  std::unique_ptr<ServerDomain> domain_;
  RemoteKey key_;
  std::vector<Channel*> channels_;
  size_t messages_ = 0;
};

class Caller {
 public:
  Caller(const Serving& serving, const DeviceWish& device, const Options& options = {});

  // Whether there is a channel now, open or not.
  bool connect();
  void turn();
  // Whether it reads whenever it can; so it does from the beginning.
  void read_on(bool reads) { reads_ = reads; }
  // A READ of its own, beside those.
  [[nodiscard]] size_t post(std::span<const Request> requests) { return channel_->post(requests); }

  [[nodiscard]] ClientDomain& domain() { return *domain_; }
  [[nodiscard]] Channel* channel() { return channel_; }
  [[nodiscard]] bool is_open() const { return is_open_; }
  [[nodiscard]] bool has_ended() const { return channel_ == nullptr; }
  [[nodiscard]] uint64_t good() const { return good_; }    // READs that brought the right bytes.
  [[nodiscard]] uint64_t wrong() const { return wrong_; }  // That brought others, and said that all was well.
  [[nodiscard]] uint64_t losses() const { return losses_; }
  // Of requests that failed, in the order told.
  [[nodiscard]] const std::vector<Code>& failures() const { return failures_; }
  // Of the channel that could not be opened last.
  [[nodiscard]] Code refused() const { return refused_; }
  std::vector<Completion> others;  // Of what was posted by post().

 private:
  void hear(const Completion& told);
  void read();

  const Serving& serving_;
  std::unique_ptr<tcp::ClientDomain> tcp_;
  std::unique_ptr<ClientDomain> domain_;
  Channel* channel_ = nullptr;
  bool is_open_ = false;
  bool reads_ = true;
  bool is_reading_ = false;
  std::array<std::byte, 256> bytes_{};
  size_t offset_ = 0;
  uint64_t good_ = 0;
  uint64_t wrong_ = 0;
  uint64_t losses_ = 0;
  std::vector<Code> failures_;
  Code refused_ = Code::kOk;
};

}  // namespace refract::fabric::verbs
