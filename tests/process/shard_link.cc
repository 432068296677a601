// SPDX-License-Identifier: Apache-2.0
#include "tests/process/shard_link.h"

#include <span>

#include "tests/process/node_process.h"

#include "refract/base/testing/needed.h"
#include "refract/memory/space.h"

namespace refract::test {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

ShardLink::ShardLink() : shard_(system_clock()) {}

std::unique_ptr<ShardLink> ShardLink::over_shm(const std::string& socket_path) {
  std::unique_ptr<ShardLink> link(new ShardLink);
  link->shm_ = needed(fabric::shm::ClientDomain::create());
  link->open(*link->shm_, socket_path);
  return link;
}

std::unique_ptr<ShardLink> ShardLink::over_tcp(const std::string& address,
                                               const fabric::tcp::Secret* secret) {
  std::unique_ptr<ShardLink> link(new ShardLink);
  link->tcp_ = needed(fabric::tcp::ClientDomain::create({.secret = secret}));
  link->open(*link->tcp_, address);
  return link;
}

void ShardLink::open(fabric::Domain& domain, const std::string& address) {
  auto channel = domain.connect(address);
  if (!channel) {
    refusal_ = channel.error();
    return;
  }
  channel_ = *channel;
  session_.emplace(*channel_, shard_);
  rpc_.emplace(*session_, shard_, kv::RpcClientOptions{.timeout_ns = kPatience_ns});
  dispatcher_.emplace(domain, shard_);
  (void)shard_.run_until([this] { return session_->state() != rpc::Session::State::kOpening; },
                         shard_.clock().now_ns() + kPatience_ns);
}

template <typename Operation>
auto ShardLink::in_the_end(Operation&& operation) {
  const uint64_t deadline_ns = shard_.clock().now_ns() + kPatience_ns;
  for (;;) {
    auto result = operation();
    const bool is_settled = result.code() != Code::kUnavailable && result.code() != Code::kIndeterminate;
    if (is_settled || !session_->reopens() || shard_.clock().now_ns() > deadline_ns) return result;
    (void)shard_.run_until([this] { return is_open() || !session_->reopens(); }, deadline_ns);
  }
}

const Report& ShardLink::refusal() const {
  if (!session_) return refusal_;
  return tcp_ ? tcp_->last_refusal() : shm_->last_refusal();
}

Result<uint64_t> ShardLink::put(std::string_view key, std::string_view value) {
  return in_the_end([&] { return rpc_->put_and_wait(bytes_of(key), bytes_of(value)); });
}

Result<uint64_t> ShardLink::erase(std::string_view key) {
  return in_the_end([&] { return rpc_->erase_and_wait(bytes_of(key)); });
}

Result<std::string> ShardLink::get(std::string_view key) {
  std::string value;
  kv::StringSink sink(value);
  const auto got = in_the_end([&] { return rpc_->get_and_wait(bytes_of(key), sink); });
  if (!got) return fail(got.code());
  return value;
}

uint64_t ShardLink::entries() {
  const auto stat = runtime::block_on(shard_, rpc_->stat());
  return stat ? stat->entries : UINT64_MAX;
}

uint64_t ShardLink::hash_seed() const {
  if (tcp_) return facts().hash_seed;
  return reinterpret_cast<const SpaceHeader*>(channel_->local_view().base)->hash_seed;
}

}  // namespace refract::test
