// SPDX-License-Identifier: Apache-2.0
#include "refract/cluster/members_call.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "refract/base/object_bytes.h"
#include "refract/cluster/members_wire.h"

namespace refract::cluster {
namespace {

using runtime::OpResult;
using runtime::Task;

// How often the list may change between two of its pages.
constexpr int kAttempts = 5;

// That it was asked does no harm.
Code outcome_of(const rpc::Session& session, Code code) noexcept {
  if (code != Code::kIndeterminate) return code;
  return session.state() == rpc::Session::State::kClosed ? Code::kUnavailable : Code::kDeadlineExceeded;
}

// One list, as its pages come.
struct Pages {
  wire::MembersReply head{};  // The first one's.
  ToldMembers told;

  [[nodiscard]] bool are_complete() const noexcept {
    return head.count > 0 && told.list.members.size() >= head.count;
  }
  // kInvalidated: the page is of another list than those before.
  [[nodiscard]] Code add(const wire::Page& page) {
    if (page.head.from != told.list.members.size()) return Code::kMalformed;
    if (page.head.from == 0) head = page.head;
    if (page.head.version != head.version) return Code::kInvalidated;
    if (page.head.count != head.count || page.head.self != head.self) return Code::kMalformed;
    std::ranges::copy(page.members, std::back_inserter(told.list.members));
    return Code::kOk;
  }
};

Task<Result<ToldMembers>> ask_once(rpc::Session& session, uint64_t deadline_ns) {
  Pages pages;
  ToldMembers& told = pages.told;
  while (!pages.are_complete()) {
    const wire::MembersRequest request{.from = static_cast<uint32_t>(told.list.members.size()),
                                       .reserved = 0};
    const OpResult reply = co_await session.call(
        {.method = static_cast<uint16_t>(wire::Method::kMembers), .head = object_bytes(request)},
        deadline_ns);
    // The list has become shorter than what was told of it.
    const bool is_shorter = reply.code == Code::kInvalidArgument && request.from > 0;
    if (is_shorter) co_return fail(Code::kInvalidated);
    if (reply.code != Code::kOk) co_return fail(outcome_of(session, reply.code));
    const auto page = wire::decode_page(reply.bytes);
    if (!page) co_return fail(Code::kMalformed);
    if (const Code code = pages.add(*page); code != Code::kOk) co_return fail(code);
  }
  told.list.version = pages.head.version;
  told.self = pages.head.self;
  if (!check(told.list)) co_return fail(Code::kMalformed);
  co_return std::move(told);
}

}  // namespace

Task<Result<ToldMembers>> ask_members(rpc::Session& session, uint64_t deadline_ns) {
  Result<ToldMembers> told = fail(Code::kInvalidated);
  for (int attempt = 0; attempt < kAttempts && told.code() == Code::kInvalidated; ++attempt) {
    told = co_await ask_once(session, deadline_ns);
  }
  co_return told;
}

}  // namespace refract::cluster
