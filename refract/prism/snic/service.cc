// SPDX-License-Identifier: Apache-2.0
#include "refract/prism/snic/service.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/memory/remote_visible.h"
#include "refract/prism/limits.h"

namespace refract::prism::snic {

Service::Service(Executor& executor, runtime::Shard& shard, const ServiceOptions& options)
    : executor_(executor), shard_(shard), options_(options) {}

Service::~Service() = default;

Result<> Service::offer(const Offer& offer) {
  if (offer.store.size() > kStoreNameBytesMax) return fail(Code::kTooLarge);
  if (std::ranges::find(offers_, offer.store, &Offer::store) != offers_.end()) return fail(Code::kExists);
  offers_.push_back(offer);
  return {};
}

void Service::withdraw(std::string_view store) noexcept {
  std::erase_if(offers_, [store](const Offer& offer) { return offer.store == store; });
}

Service::Open* Service::find(rpc::SessionId session) noexcept {
  const auto found = sessions_.find(session.bits);
  return found == sessions_.end() ? nullptr : found->second.get();
}

void Service::session_opened(rpc::SessionId session) noexcept {
  const uint64_t key_seed = options_.key_seed == 0 ? 0 : mix(options_.key_seed + session.bits) | 1;
  sessions_.emplace(session.bits,
                    std::make_unique<Open>(Open{.connection = Connection(key_seed), .chains = {}}));
  if (server_ != nullptr) {
    reply_.resize(std::max(reply_.size(), server_->payload_bytes_max(session)));
  }
}

void Service::session_closed(rpc::SessionId session) noexcept {
  const auto found = sessions_.find(session.bits);
  if (found == sessions_.end()) return;
  for (const Waiting& chain : found->second->chains) waiting_bytes_ -= chain.chain.size();
  waiting_ -= found->second->chains.size();
  sessions_.erase(found);
  std::erase(turns_, session);
}

void Service::refuse(const rpc::Responder& to, Code code) noexcept {
  ++counts_.refused;
  counts_.overloaded += code == Code::kOverloaded ? 1 : 0;
  if (server_ != nullptr) server_->reply(to, code);
}

void Service::handle(std::span<const rpc::IncomingCall> calls) noexcept {
  const bool is_timed = batches_++ % kTimedBatches == 0;
  const uint64_t began_ns = is_timed ? shard_.refresh_now() : 0;
  const uint64_t chains_before = counts_.chains;
  budget_ = options_.budget;
  for (const rpc::IncomingCall& call : calls) {
    Open* open = find(call.from.session);
    if (open == nullptr) {
      refuse(call.from, Code::kUnavailable);
    } else {
      take(*open, call);
    }
  }
  if (!is_timed) return;
  ++counts_.timed_batches;
  counts_.timed_chains += counts_.chains - chains_before;
  counts_.timed_ns += shard_.refresh_now() - began_ns;
}

void Service::take(Open& open, const rpc::IncomingCall& call) noexcept {
  switch (call.header.method) {
    case kChainMethod:
      if (open.chains.empty() && budget_ > 0) {
        execute(open, call.from, call.payload);
      } else {
        wait(open, call);
      }
      return;
    case kAttachMethod:
      attach(open, call);
      return;
    default:
      refuse(call.from, Code::kUnsupported);
  }
}

void Service::execute(Open& open, const rpc::Responder& from, std::span<const std::byte> chain) noexcept {
  const size_t room = server_ == nullptr ? 0 : server_->payload_bytes_max(from.session);
  const Executor::Counts& executed = executor_.counts();
  const uint64_t operations_before = executed.all_operations();
  const Result<size_t> bytes =
      executor_.execute(open.connection, chain, std::span(reply_).first(std::min(room, reply_.size())));
  const uint64_t cost =
      1 + executed.all_operations() - operations_before + (chain.size() + (bytes ? *bytes : 0)) / kKiB;
  budget_ -= std::min(budget_, cost);
  if (!bytes) {
    refuse(from, bytes.error().code);
    return;
  }
  ++counts_.chains;
  const std::span<const std::byte> reply = std::span(reply_).first(*bytes);
  if (gate_ != nullptr && gate_->keeps_reply(from, reply)) return;
  if (server_ != nullptr) server_->reply(from, Code::kOk, {}, reply);
}

void Service::wait(Open& open, const rpc::IncomingCall& call) {
  if (call.payload.size() > options_.waiting_bytes_max - waiting_bytes_) {
    refuse(call.from, Code::kOverloaded);
    return;
  }
  Waiting waiting{.from = call.from, .chain = std::vector<std::byte>(call.payload.size())};
  // The peer may still be changing it; this copy is what is checked.
  if (!call.payload.empty()) {
    copy_possibly_torn(waiting.chain.data(), call.payload.data(), call.payload.size());
  }
  waiting_bytes_ += call.payload.size();
  ++waiting_;
  ++counts_.deferred;
  if (open.chains.empty()) turns_.push_back(call.from.session);
  open.chains.push_back(std::move(waiting));
  if (worker_.valid() && !worker_.done()) return;
  worker_ = work_on_waiting();
  worker_.start();
}

runtime::Task<> Service::work_on_waiting() {
  while (!turns_.empty()) {
    co_await shard_.sleep_for(0);
    work_within_budget();
  }
}

void Service::work_within_budget() {
  budget_ = options_.budget;
  while (!turns_.empty() && budget_ > 0) {
    const rpc::SessionId session = turns_.front();
    turns_.pop_front();
    Open* open = find(session);
    const Waiting next = std::move(open->chains.front());
    open->chains.pop_front();
    --waiting_;
    waiting_bytes_ -= next.chain.size();
    if (!open->chains.empty()) turns_.push_back(session);
    execute(*open, next.from, next.chain);
  }
}

void Service::attach(Open& open, const rpc::IncomingCall& call) noexcept {
  AttachRequest request;
  std::array<char, kStoreNameBytesMax> name;
  if (call.payload.size() < sizeof(request)) return refuse(call.from, Code::kMalformed);
  std::memcpy(&request, call.payload.data(), sizeof(request));
  const bool is_sound = std::ranges::all_of(request.reserved, [](uint8_t byte) { return byte == 0; });
  if (!is_sound) return refuse(call.from, Code::kMalformed);
  const std::span<const std::byte> rest = call.payload.subspan(sizeof(request));
  if (rest.size() > name.size()) return refuse(call.from, Code::kNotFound);
  if (!rest.empty()) std::memcpy(name.data(), rest.data(), rest.size());
  const auto offer = std::ranges::find(offers_, std::string_view(name.data(), rest.size()), &Offer::store);
  const RegionSpec* region = offer == offers_.end() ? nullptr : executor_.find(offer->region);
  if (region == nullptr) return refuse(call.from, Code::kNotFound);
  if (!offer->rights.cover(request.rights)) return refuse(call.from, Code::kAccessDenied);
  const Result<Grant> grant = open.connection.grant(offer->region, ChainRights{request.rights});
  if (!grant) return refuse(call.from, grant.error().code);
  ++counts_.attached;
  const AttachReply reply = {.key = grant->key.bits,
                             .bytes = region->bytes,
                             .root = offer->root,
                             .region = offer->region,
                             .rights = grant->rights.bits,
                             .chain_version = kChainVersion,
                             .reserved = {}};
  if (server_ != nullptr) server_->reply(call.from, Code::kOk, std::as_bytes(std::span(&reply, 1)));
}

}  // namespace refract::prism::snic
