// SPDX-License-Identifier: Apache-2.0
#include "tests/verbs/caller.h"

#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

#include "refract/base/testing/needed.h"

namespace refract::fabric::verbs {
namespace {

constexpr uint64_t kReadToken = ~uint64_t{0};

}  // namespace

DeviceWish wish_on(std::string_view interface) {
  const char* const family = std::getenv("REFRACT_VERBS_FAMILY");
  const bool is_six = family != nullptr && std::string_view(family) == "ipv6";
  const GidKind kind = is_six ? GidKind::kRoce2Ipv6 : GidKind::kRoce2Ipv4;
  const auto devices = list_devices();
  if (!devices) {
    ADD_FAILURE() << devices.error().to_string();
    return {};
  }
  for (const DeviceFacts& device : *devices) {
    const GidFacts* const gid = gid_of_kind(device.ports.front(), kind);
    if (gid == nullptr || gid->interface != interface) continue;
    return {.device = device.name, .gid_index = static_cast<int32_t>(gid->index)};
  }
  ADD_FAILURE() << "no device on " << interface << " has an address of the family";
  return {};
}

Serving::Serving(const DeviceWish& device, const Options& options)
    : region_(static_cast<std::byte*>(std::aligned_alloc(4096, kRegionBytes))) {
  for (size_t at = 0; at < kRegionBytes; ++at) region_[at] = pattern(at);
  Options wanted = options;
  wanted.device = device;
  auto made = ServerDomain::create(node_.server(), wanted);
  EXPECT_TRUE(made.has_value()) << made.error().to_string();
  domain_ = std::move(*made);
  const auto key = domain_->register_region({.region = kRegion,
                                             .base = region_.get(),
                                             .bytes = kRegionBytes,
                                             .rights = {.read = true, .write = false, .atomic = false}});
  EXPECT_TRUE(key.has_value()) << key.error().to_string();
  key_ = *key;
}

Serving::~Serving() {
  domain_.reset();
}

void Serving::turn() {
  node_.pump();
  std::array<Completion, 64> completions;
  const size_t count = domain_->poll(completions);
  for (const Completion& each : std::span(completions).first(count)) {
    if (each.op == Op::kOpened && each.code == Code::kOk) channels_.push_back(each.channel);
    if (each.op == Op::kClosed) std::erase(channels_, each.channel);
    if (each.op == Op::kReceive) ++messages_;
  }
  domain_->flush();
}

Caller::Caller(const Serving& serving, const DeviceWish& device, const Options& options)
    : serving_(serving), tcp_(test::needed(tcp::ClientDomain::create({}))) {
  Options wanted = options;
  wanted.device = device;
  auto made = ClientDomain::create(*tcp_, wanted);
  EXPECT_TRUE(made.has_value()) << made.error().to_string();
  domain_ = std::move(*made);
}

bool Caller::connect() {
  if (channel_ != nullptr) return true;
  const auto channel = domain_->connect(serving_.address());
  if (!channel) refused_ = channel.error().code;
  channel_ = channel ? *channel : nullptr;
  return channel_ != nullptr;
}

void Caller::turn() {
  if (is_open_ && reads_ && !is_reading_) read();
  std::array<Completion, 64> completions;
  const size_t count = domain_->poll(completions);
  for (const Completion& each : std::span(completions).first(count)) hear(each);
  domain_->flush();
}

void Caller::read() {
  offset_ = (offset_ + 64) % (Serving::kRegionBytes - bytes_.size());
  bytes_.fill(std::byte{0});
  const Request request{.token = kReadToken,
                        .local = {bytes_.data(), bytes_.size()},
                        .remote = {RemotePointer::at(Serving::kRegion, offset_), serving_.key()},
                        .op = Op::kRead};
  is_reading_ = channel_->post({&request, 1}) == 1;
}

void Caller::hear(const Completion& told) {
  if (told.op == Op::kOpened) {
    is_open_ = told.code == Code::kOk;
    if (!is_open_) refused_ = told.code;
    if (!is_open_) channel_ = nullptr;
  } else if (told.op == Op::kClosed) {
    is_open_ = false;
    ++losses_;
    if (told.value == 0) channel_ = nullptr;
  } else if (told.token == kReadToken && told.op == Op::kRead) {
    is_reading_ = false;
    bool is_right = true;
    for (size_t i = 0; i < bytes_.size(); ++i)
      is_right = is_right && bytes_[i] == Serving::pattern(offset_ + i);
    if (told.code != Code::kOk) failures_.push_back(told.code);
    if (told.code == Code::kOk) ++(is_right ? good_ : wrong_);
  } else {
    others.push_back(told);
  }
}

}  // namespace refract::fabric::verbs
