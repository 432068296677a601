// SPDX-License-Identifier: Apache-2.0
#include "refract/prism/client.h"

#include <cstring>

namespace refract::prism {
namespace {

[[nodiscard]] Result<Reply> reply_of(const runtime::OpResult& result, size_t operations) noexcept {
  if (result.code != Code::kOk) return fail(result.code);
  return Reply::of(result.bytes, operations);
}

[[nodiscard]] Result<Attachment> attachment_of(const runtime::OpResult& result, ChainRights wanted) noexcept {
  if (result.code != Code::kOk) return fail(result.code);
  AttachReply reply;
  if (result.bytes.size() != sizeof(reply)) return fail(Code::kMalformed);
  std::memcpy(&reply, result.bytes.data(), sizeof(reply));
  const ChainRights granted{reply.rights};
  if (!granted.cover(wanted.bits) || reply.region == kScratchRegion) return fail(Code::kMalformed);
  return Attachment{.key = {reply.key},
                    .region = reply.region,
                    .rights = granted,
                    .bytes = reply.bytes,
                    .root = reply.root,
                    .form = reply.chain_version >= kChainVersion ? ChainForm::kDense : ChainForm::kPlain};
}

[[nodiscard]] AttachRequest request_of(ChainRights rights) noexcept {
  return {.rights = rights.bits, .reserved = {}};
}

[[nodiscard]] rpc::Call attach_call(const AttachRequest& request, std::string_view store) noexcept {
  return {.method = kAttachMethod,
          .head = std::as_bytes(std::span(&request, 1)),
          .tail = std::as_bytes(std::span(store))};
}

}  // namespace

runtime::Task<Result<Attachment>> Client::attach(std::string_view store, ChainRights rights,
                                                 uint64_t deadline_ns) {
  const AttachRequest request = request_of(rights);
  const runtime::OpResult result = co_await session_.call(attach_call(request, store), deadline_ns);
  co_return attachment_of(result, rights);
}

runtime::Task<Result<Reply>> Client::run(const Chain& chain, uint64_t deadline_ns) {
  const Result<std::span<const std::byte>> message = chain.finish();
  if (!message) co_return fail(message.error());
  const runtime::OpResult result =
      co_await session_.call({.method = kChainMethod, .tail = *message}, deadline_ns);
  co_return reply_of(result, chain.operations());
}

Result<Attachment> Client::attach_and_wait(std::string_view store, ChainRights rights, uint64_t deadline_ns) {
  const AttachRequest request = request_of(rights);
  return attachment_of(session_.call_and_wait(attach_call(request, store), deadline_ns), rights);
}

Result<Reply> Client::run_and_wait(const Chain& chain, uint64_t deadline_ns) {
  const Result<std::span<const std::byte>> message = chain.finish();
  if (!message) return fail(message.error());
  return reply_of(session_.call_and_wait({.method = kChainMethod, .tail = *message}, deadline_ns),
                  chain.operations());
}

}  // namespace refract::prism
