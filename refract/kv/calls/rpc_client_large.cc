// SPDX-License-Identifier: Apache-2.0
// Values that fit no message: in pieces, each a call, or by one-sided requests through a window.
//
// A window's READ or WRITE carries at most kWindowStepBytes, so that a deadline measures progress and others
// on the channel are not kept waiting by half a gigabyte; several are under way at once, so that a path with
// delay stays full. Of what a session may hold open at the owner only half is under way (rpc_client_room.h).
// A commit is sent behind the last WRITE without waiting for it: requests of one channel
// take effect in the order posted.
#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/calls/rpc_client_parts.h"
#include "refract/kv/layout/numbered_wire.h"

namespace refract::kv {

using runtime::OpResult;
using runtime::Task;
using wire::Method;

namespace {

constexpr uint64_t kWindowStepBytes = 4 * kMiB;
constexpr size_t kWindowStepsMax = 4;

// A piece of a value, and where it is at the owner.
struct Step {
  fabric::Op op;
  wire::WindowReply window;
  uint64_t offset;
  std::span<std::byte> local;
};

// Not inlined: the request is aligned more than a coroutine's frame.
[[nodiscard, gnu::noinline]] bool try_post(fabric::Channel& channel, const Step& step,
                                           runtime::Token token) noexcept {
  const RemotePointer first{step.window.address};
  const fabric::Request request = {
      .token = token,
      .local = {step.local.data(), step.local.size()},
      .remote = {.address = RemotePointer::at(first.region(), first.offset() + step.offset),
                 .key = {step.window.key}},
      .op = step.op};
  return channel.post({&request, 1}) == 1;
}

}  // namespace

uint32_t RpcClient::one_sided_bytes_min() const noexcept {
  const fabric::Channel* channel = session_.channel();
  return channel == nullptr ? 0 : channel->capabilities().one_sided_bytes_min;
}

// The one-sided requests of one transfer that are under way, oldest first. They use the caller's memory, so
// the session ends with it if they have not.
class RpcClient::Posted {
 public:
  Posted(RpcClient& client, rpc::TransferRoom& room) noexcept : client_(client), room_(room) {}
  Posted(const Posted&) = delete;
  Posted& operator=(const Posted&) = delete;
  ~Posted() {
    if (is_unsafe_ || !under_way_.empty()) client_.session_.close();
    under_way_.clear();
    if (taken_bytes_ > 0) room_.give_back(taken_bytes_);
  }

  [[nodiscard]] bool full() const noexcept { return under_way_.size() >= kWindowStepsMax; }
  [[nodiscard]] bool empty() const noexcept { return under_way_.empty(); }

  // `deadline_ns` as the client's operations have it.
  [[nodiscard]] Task<Code> post(Step step, uint64_t deadline_ns) {
    // No transfer waits with bytes of its own under way, for which those in front of it may be waiting.
    bool has_room = room_.try_take(step.local.size());
    while (!has_room && !empty()) {
      const Code code = co_await finish_one();
      if (code != Code::kOk) co_return code;
      has_room = room_.try_take(step.local.size());
    }
    if (!has_room) {
      const Code code = co_await room_.take(step.local.size(), client_.deadline_or_default(deadline_ns));
      if (code != Code::kOk) co_return code;
    }
    taken_bytes_ += step.local.size();
    const uint64_t give_up_ns = client_.deadline_or_default(deadline_ns);
    runtime::Pending operation = client_.shard_.ops().begin(give_up_ns);
    if (operation.token() == 0) co_return Code::kOverloaded;
    for (;;) {
      fabric::Channel* channel = client_.session_.channel();
      if (channel == nullptr) co_return Code::kUnavailable;
      if (try_post(*channel, step, operation.token())) break;
      co_await client_.shard_.sleep_for(0);
      if (client_.shard_.now_ns() >= give_up_ns) co_return Code::kDeadlineExceeded;
    }
    under_way_.push_back({.operation = std::move(operation), .bytes = step.local.size()});
    co_return Code::kOk;
  }

  // Waits for the oldest.
  [[nodiscard]] Task<Code> finish_one() {
    // Awaiting changes it, which the check does not see.
    runtime::Pending& oldest = under_way_.front().operation;  // NOLINT(misc-const-correctness)
    const OpResult result = co_await oldest;
    const uint64_t bytes = under_way_.front().bytes;
    under_way_.pop_front();
    // The request is unanswered: it may still read or write the caller's memory.
    is_unsafe_ |= result.code == Code::kDeadlineExceeded;
    taken_bytes_ -= bytes;
    room_.give_back(bytes);
    co_return result.code;
  }

  // Waits for all, with the first failure among `code` and theirs.
  [[nodiscard]] Task<Code> finish_all(Code code) {
    while (!empty()) {
      const Code one = co_await finish_one();
      code = code == Code::kOk ? one : code;
    }
    co_return code;
  }

 private:
  struct UnderWay {
    runtime::Pending operation;
    uint64_t bytes;
  };

  RpcClient& client_;
  rpc::TransferRoom& room_;
  std::deque<UnderWay> under_way_;
  uint64_t taken_bytes_ = 0;  // Of the room; those of a request that was not posted go with all this.
  bool is_unsafe_ = false;
};

// Reads the rest of what a view shows, and closes it.
Task<Code> RpcClient::read_view(ViewRest rest, uint64_t deadline_ns) {
  Task<Code> reading = rest.window.key != 0 ? read_window(rest, deadline_ns) : read_rest(rest, deadline_ns);
  const Code code = co_await std::move(reading);
  if (code != Code::kOk) co_return code;
  // The bytes are here: the caller does not wait until the owner knows, unless there is no credit to tell it,
  // for a view that stays open keeps others from theirs.
  const wire::Handle handle{rest.view};
  const rpc::Call closing{.method = static_cast<uint16_t>(Method::kViewClose),
                          .head = std::as_bytes(std::span(&handle, 1))};
  if (const uint64_t call = session_.start(closing); call != 0) {
    (void)session_.finish(call);
  } else {
    (void)co_await session_.call(closing, deadline_or_default(deadline_ns));
  }
  co_return Code::kOk;
}

Task<Code> RpcClient::read_rest(ViewRest rest, uint64_t deadline_ns) {
  Transfer job{.handle = rest.view,
               .target = rest.target,
               .source = {},
               .next = rest.from,
               .deadline_ns = deadline_ns,
               .code = Code::kOk,
               .team = TaskTeam(shard_)};
  const Code code = co_await transfer(job);
  co_return code;
}

Task<Code> RpcClient::read_window(ViewRest rest, uint64_t deadline_ns) {
  Posted posted(*this, reading_);
  Code code = Code::kOk;
  while (code == Code::kOk && rest.from < rest.target.size()) {
    if (posted.full()) {
      code = co_await posted.finish_one();
      continue;
    }
    const auto local =
        rest.target.subspan(rest.from, std::min<uint64_t>(kWindowStepBytes, rest.target.size() - rest.from));
    code = co_await posted.post(
        {.op = fabric::Op::kRead, .window = rest.window, .offset = rest.from, .local = local}, deadline_ns);
    rest.from += local.size();
  }
  code = co_await posted.finish_all(code);
  // Denied: the view is gone, and its window with it.
  co_return code == Code::kAccessDenied ? Code::kInvalidated : code;
}

Task<Code> RpcClient::transfer(Transfer& job) {
  const uint64_t left = job.bytes() - job.next;
  const size_t members = std::min(options_.pipeline, static_cast<size_t>(left / body_bytes_max_ + 1));
  for (size_t i = 0; i < members; ++i) {
    job.team.add(job.target.empty() ? write_pieces(job) : read_pieces(job));
  }
  co_await job.team.run();
  co_return job.code;
}

Task<> RpcClient::read_pieces(Transfer& job) {
  while (job.code == Code::kOk && job.next < job.bytes()) {
    const uint64_t bytes = std::min<uint64_t>(body_bytes_max_, job.bytes() - job.next);
    const wire::ViewPieceRequest request{.view = job.handle, .offset = job.next, .bytes = bytes};
    job.next += bytes;
    const OpResult piece = co_await session_.call(
        {.method = static_cast<uint16_t>(Method::kViewPiece), .head = std::as_bytes(std::span(&request, 1))},
        deadline_or_default(job.deadline_ns));
    if (piece.code != Code::kOk) {
      job.fail_with(read_outcome(piece.code));
    } else if (piece.bytes.size() != bytes) {
      job.fail_with(Code::kMalformed);
    } else {
      copy_possibly_torn(job.target.data() + request.offset, piece.bytes.data(), bytes);
    }
  }
  job.team.leave();
}

// Pieces are sent in order: each task takes the next one and enters the session's line before anything else
// runs.
Task<> RpcClient::write_pieces(Transfer& job) {
  const uint64_t bytes_max = body_bytes_max_ - sizeof(wire::PutPieceRequest);
  while (job.code == Code::kOk && job.next < job.bytes()) {
    const std::span<const std::byte> rest = job.rest();
    const auto piece = rest.first(std::min(bytes_max, rest.size()));
    const wire::PutPieceRequest request{.upload = job.handle, .offset = job.next};
    job.next += piece.size();
    const OpResult sent = co_await session_.call({.method = static_cast<uint16_t>(Method::kPutPiece),
                                                  .head = std::as_bytes(std::span(&request, 1)),
                                                  .tail = piece},
                                                 deadline_or_default(job.deadline_ns));
    if (sent.code != Code::kOk) job.fail_with(read_outcome(sent.code));
  }
  job.team.leave();
}

// An answer is looked at, and what it has opened held, before anything else can run.
Task<Result<RpcClient::Upload>> RpcClient::begin_upload(Keyed call, uint64_t value_bytes, Writing& writing,
                                                        uint64_t deadline_ns) {
  call.method = Method::kPutBegin;
  const uint32_t one_sided_bytes = one_sided_bytes_min();
  const bool wants_window = one_sided_bytes > 0 && call.value_front.size() + value_bytes >= one_sided_bytes;
  if (wants_window) call.fixed.key.flags |= wire::KeyRef::kWantsWindow;
  const OpResult begun = co_await call_keyed(call, deadline_ns);
  const Result<uint64_t> id = writing.version_of(begun);
  if (!id) co_return fail(writing.is_unknowable ? Code::kIndeterminate : read_outcome(id.error().code));
  Upload upload{.id = *id, .window = {}, .front = call.value_front, .version = 0};
  if (*id == 0) {
    std::span<const std::byte> answer = begun.bytes;
    const auto already = wire::take<wire::AlreadyPutReply>(answer);
    if (!already || already->version == 0) co_return fail(Code::kMalformed);
    upload.version = already->version;
    co_return upload;
  }
  if (!wants_window) co_return upload;
  std::span<const std::byte> rest = begun.bytes.subspan(sizeof(wire::Handle));
  const auto window = wire::take<wire::WindowReply>(rest);
  if (!window) {
    abandon(*id);
    co_return fail(Code::kMalformed);
  }
  upload.window = *window;
  co_return upload;
}

Task<Result<uint64_t>> RpcClient::put_large(Keyed call, std::span<const std::byte> value, Writing& writing,
                                            uint64_t deadline_ns) {
  if (call.value_front.empty() && may_be_pulled(value.size(), call.shared)) {
    const Result<uint64_t> version = co_await put_pulled(call, value, writing, deadline_ns);
    const bool is_undone = version.code() == Code::kUnsupported || version.code() == Code::kAccessDenied;
    if (!is_undone) co_return version;
  }
  const Result<Upload> upload = co_await begin_upload(call, value.size(), writing, deadline_ns);
  if (!upload) co_return fail(upload.error());
  if (upload->id == 0) co_return upload->version;
  OpenHandle open(session_, Method::kPutAbandon, upload->id);
  const bool has_window = upload->window.key != 0;
  Task<Result<uint64_t>> rest = has_window ? put_window(*upload, value, writing, deadline_ns)
                                           : put_pieces(*upload, value, writing, deadline_ns);
  const Result<uint64_t> version = co_await std::move(rest);
  if (version) open.forget();
  co_return version;
}

Task<Result<uint64_t>> RpcClient::put_pieces(Upload upload, std::span<const std::byte> value,
                                             Writing& writing, uint64_t deadline_ns) {
  const Code code = co_await bring(upload, value, deadline_ns);
  if (code != Code::kOk) co_return fail(code);
  const Result<uint64_t> version = co_await commit(upload.id, writing, deadline_ns);
  co_return version;
}

// In pieces.
Task<Code> RpcClient::bring(Upload upload, std::span<const std::byte> value, uint64_t deadline_ns) {
  stay_awake_while_moving(value.size());
  Transfer job{.handle = upload.id,
               .target = {},
               .source = value,
               .next = 0,
               .deadline_ns = deadline_ns,
               .code = Code::kOk,
               .team = TaskTeam(shard_),
               .front = upload.front};
  const Code code = co_await transfer(job);
  co_return code;
}

// All is posted; or not all, and nothing is under way any more.
Task<Code> RpcClient::write_window(Posted& posted, Upload upload, std::span<const std::byte> value,
                                   uint64_t deadline_ns) {
  Code code = Code::kOk;
  const uint64_t front_bytes = upload.front.size();
  for (uint64_t next = 0; code == Code::kOk && next < front_bytes + value.size();) {
    if (posted.full()) {
      code = co_await posted.finish_one();
      continue;
    }
    const auto rest = next < front_bytes ? upload.front.subspan(next) : value.subspan(next - front_bytes);
    const auto piece = rest.first(std::min<uint64_t>(kWindowStepBytes, rest.size()));
    // The channel only reads what a WRITE sends, but a LocalSpan also serves READs.
    auto* data = const_cast<std::byte*>(piece.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    code = co_await posted.post(
        {.op = fabric::Op::kWrite, .window = upload.window, .offset = next, .local = {data, piece.size()}},
        deadline_ns);
    next += piece.size();
  }
  if (code == Code::kOk) co_return code;
  code = co_await posted.finish_all(code);
  co_return code == Code::kAccessDenied ? Code::kInvalidated : code;
}

Task<Result<uint64_t>> RpcClient::put_window(Upload upload, std::span<const std::byte> value,
                                             Writing& writing, uint64_t deadline_ns) {
  Posted posted(*this, writing_);
  Code code = co_await write_window(posted, upload, value, deadline_ns);
  if (code != Code::kOk) co_return fail(code);
  const Result<uint64_t> version = co_await commit(upload.id, writing, deadline_ns);
  code = co_await posted.finish_all(Code::kOk);
  // A commit that succeeded came behind WRITEs that had, unless the owner contradicts itself.
  if (version && code != Code::kOk) co_return fail(Code::kIndeterminate);
  co_return version;
}

Task<Result<uint64_t>> RpcClient::draft(std::span<const std::byte> key, std::span<const std::byte> value,
                                        RpcPutOptions options, uint64_t deadline_ns) {
  if (const Code code = check_lengths(key, value.size()); code != Code::kOk) co_return fail(code);
  RetryBudget budget{.deadline_ns = deadline_or_default(deadline_ns)};
  for (;;) {
    const Keyed call = Keyed::of_put(key, value.size(), {.ttl_ns = options.ttl_ns, .shared = options.shared});
    const Result<uint64_t> handle = co_await draft_once(call, value, deadline_ns);
    if (handle) co_return handle;
    const bool again = co_await may_repeat(handle.code(), budget);
    if (!again) co_return fail(handle.error());
  }
}

Task<Result<uint64_t>> RpcClient::draft_once(Keyed call, std::span<const std::byte> value,
                                             uint64_t deadline_ns) {
  Writing writing = Writing::of({}, 0);
  if (may_be_pulled(value.size(), call.shared)) {
    // Of a range of its own.
    call.method = static_cast<Method>(wire::NumberedMethod::kPullDraft);
    const OpResult pulled = co_await have_pulled(call, value, deadline_ns);
    const Result<uint64_t> handle = writing.version_of(pulled);
    if (handle && *handle == 0) co_return fail(Code::kMalformed);
    const bool is_undone = handle.code() == Code::kUnsupported || handle.code() == Code::kAccessDenied;
    if (!is_undone) co_return handle ? handle : fail(read_outcome(handle.code()));
  }
  const Result<Upload> upload = co_await begin_upload(call, value.size(), writing, deadline_ns);
  if (!upload) co_return fail(upload.error());
  // Only what has an identity may have been put before.
  if (upload->id == 0) co_return fail(Code::kMalformed);
  OpenHandle open(session_, Method::kPutAbandon, upload->id);
  Code code = Code::kOk;
  if (upload->window.key != 0) {
    Posted posted(*this, writing_);
    code = co_await write_window(posted, *upload, value, deadline_ns);
    if (code == Code::kOk) code = co_await posted.finish_all(code);
    // Denied: the draft is gone, and its window with it.
    if (code == Code::kAccessDenied) code = Code::kInvalidated;
  } else {
    code = co_await bring(*upload, value, deadline_ns);
  }
  if (code != Code::kOk) co_return fail(code);
  open.forget();
  co_return upload->id;
}

void RpcClient::abandon(uint64_t draft) noexcept {
  const OpenHandle open(session_, Method::kPutAbandon, draft);
}

Task<Result<uint64_t>> RpcClient::commit(uint64_t upload, Writing& writing, uint64_t deadline_ns) {
  const wire::Handle handle{upload};
  const OpResult committed = co_await session_.call(
      {.method = static_cast<uint16_t>(Method::kPutCommit), .head = std::as_bytes(std::span(&handle, 1))},
      deadline_or_default(deadline_ns));
  co_return writing.version_of(committed);
}

}  // namespace refract::kv
