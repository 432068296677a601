// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/service/service.h"

#include <algorithm>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/units.h"
#include "refract/kv/layout/many_wire.h"

namespace refract::kv {
namespace {

using wire::Method;

// The call's handle, where that is all there is.
uint64_t only_handle(std::span<const std::byte> body) noexcept {
  const auto handle = wire::take<wire::Handle>(body);
  return handle && body.empty() ? handle->id : 0;
}

wire::WindowReply reply_of(const std::optional<Window>& window) noexcept {
  return window ? wire::WindowReply{.address = window->address.bits, .key = window->key.bits}
                : wire::WindowReply{};
}

}  // namespace

TableService::TableService(const Parts& parts)
    : parts_(parts),
      started_ns_(parts.shard.clock().now_ns()),
      outcomes_(started_ns_),
      fetcher_(parts.shard, *this, parts.pull_piece_bytes),
      arena_(kGroup * kKeyBytesMax),
      far_reads_(parts.table, parts.shard, *this) {
  look_after_time();
}

TableService::~TableService() = default;

void TableService::session_opened(rpc::SessionId session) noexcept {
  REFRACT_CHECK(server_ != nullptr);
  const size_t bytes = server_->payload_bytes_max(session);
  if (bytes < wire::kBodyBytesMin) {
    server_->close_session(session);
    return;
  }
  const fabric::Capabilities* can = server_->capabilities(session);
  const Open::Parts parts{.table = parts_.table,
                          .pins = parts_.pins,
                          .windows = parts_.windows,
                          .outcomes = outcomes_,
                          .all_upload_bytes = upload_bytes_,
                          .all_staged_bytes = staged_bytes_};
  sessions_.emplace(session.bits, std::make_unique<Open>(parts, bytes, *can, parts_.shard.now_ns()));
}

void TableService::session_closed(rpc::SessionId session) noexcept {
  if (Open* open = find(session)) waiting_scans_ -= open->scans.size();
  // Before the drafts go: the channel has closed, so nothing lands in them any more.
  fetcher_.end(session);
  found_ = nullptr;
  sessions_.erase(session.bits);
  held_answers_.drop(session);
  far_reads_.drop(session);
  std::erase_if(waiting_, [&](const writes::Waiting& waiting) {
    if (waiting.from.session != session) return false;
    waiting_bytes_ -= waiting.bytes.size();
    outcomes_.unwatch(waiting.write.options.request);
    return true;
  });
}

SessionState* TableService::state_of(rpc::SessionId session) noexcept {
  Open* const open = find(session);
  return open == nullptr ? nullptr : &open->state;
}

bool TableService::is_ours(const Table::HashedKey& key) const noexcept {
  return parts_.routing.is_at(parts_.shard_index, key.bytes, key.hash);
}

TableService::Open* TableService::find(rpc::SessionId session) noexcept {
  if (found_ != nullptr && session == found_id_) [[likely]]
    return found_;
  const auto found = sessions_.find(session.bits);
  if (found == sessions_.end()) return nullptr;
  found_id_ = session;
  return found_ = found->second.get();
}

void TableService::handle(std::span<const rpc::IncomingCall> calls) noexcept {
  look_at_uses(calls.size());
  if (far_reads_.has_any()) [[unlikely]] {
    handle_in_groups(far_reads_.others(calls));
  } else if (calls.size() != 1 || !put_alone(calls.front())) {
    handle_in_groups(calls);
  }
  look_after_held();
  look_after_memory();
  look_after_time();
}

// The call that its client waits for: there is no other whose misses could overlap with this one's. False: it
// is another call, or did not succeed, and nothing has changed.
bool TableService::put_alone(const rpc::IncomingCall& call) noexcept {
  if (call.header.method != static_cast<uint16_t>(Method::kPut)) return false;
  std::span<const std::byte> body = call.payload;
  const auto request = wire::take<wire::PutRequest>(body);
  if (!request || request->if_version != 0 || request->ttl_ns != 0) return false;
  const wire::KeyRef& ref = request->key;
  const bool is_plain = ref.staged == 0 && ref.flags == 0 && ref.key_bytes != 0;
  if (!is_plain || body.size() != uint64_t{ref.key_bytes} + ref.value_bytes) return false;
  if (find(call.from.session) == nullptr) return false;
  arena_.clear();
  const Table::HashedKey key = parts_.table.hashed(arena_.copy(wire::take_bytes(body, ref.key_bytes)));
  if (!is_ours(key)) [[unlikely]]
    return false;
  const Result<uint64_t> version = parts_.table.put(key, body, {});
  if (!version) [[unlikely]]
    return false;
  ++ops_[static_cast<size_t>(Method::kPut)];
  answer_when_confirmed(call.from, wire::VersionReply{*version});
  return true;
}

void TableService::handle_in_groups(std::span<const rpc::IncomingCall> calls) noexcept {
  has_scanned_ = false;
  executed_ = 0;
  while (!calls.empty()) {
    const std::span<Prepared> group = std::span(group_).first(std::min(calls.size(), kGroup));
    arena_.clear();
    for (size_t i = 0; i < group.size(); ++i) prepare(calls[i], group[i]);
    for (const Prepared& prepared : group) {
      if (!prepared.keyed.key.bytes.empty()) parts_.table.prefetch_buffers(prepared.keyed.key);
    }
    for (const Prepared& prepared : group) {
      if (executed_ >= wire::kKeysPerTurn) send_meanwhile(prepared);
      execute(prepared);
    }
    calls = calls.subspan(group.size());
  }
}

void TableService::prepare(const rpc::IncomingCall& call, Prepared& prepared) noexcept {
  prepared.call = &call;
  prepared.code = Code::kOk;
  prepared.keyed.reset();
  prepared.session = find(call.from.session);
  prepared.method = static_cast<Method>(call.header.method);
  if (prepared.session == nullptr) return;
  // Before the calls behind it are decoded: one of them may use the key.
  if (prepared.method == Method::kStageKey) prepared.code = stage_key(*prepared.session, call.payload);
  if (!is_keyed(prepared.method)) return;
  prepared.code =
      decode_keyed(prepared.method, call.payload, prepared.session->state, arena_, prepared.keyed);
  Table::HashedKey& key = prepared.keyed.key;
  if (key.bytes.empty()) return;
  key.hash = parts_.table.hash(key.bytes);
  if (!is_ours(key)) [[unlikely]] {
    prepared.code = prepared.code == Code::kOk ? Code::kWrongShard : prepared.code;
  }
  parts_.table.prefetch_bucket(key.hash);
}

// A client that has asked for much gets the first part while the rest is worked on.
void TableService::send_meanwhile(const Prepared& next) noexcept {
  executed_ = 0;
  if (server_ != nullptr) server_->flush(next.call->from.session);
}

void TableService::execute(const Prepared& prepared) noexcept {
  ++executed_;
  if (prepared.session == nullptr) return answer(prepared.call->from, Code::kUnavailable);
  const rpc::Responder& from = prepared.call->from;
  if (prepared.method == Method::kGetMany) return get_many(from, *prepared.session, prepared.call->payload);
  if (prepared.method == Method::kPutMany) return put_many(from, prepared.call->payload);
  const auto number = static_cast<size_t>(wire::counted_as(prepared.method));
  ++ops_[number < ops_.size() ? number : 0];
  if (prepared.code != Code::kOk) return answer(from, prepared.code);
  const std::span<const std::byte> body = prepared.call->payload;
  Open& session = *prepared.session;
  switch (prepared.method) {
    case Method::kPing:
      return ping(from, body);
    case Method::kScan:
      return scan(from, session, body);
    case Method::kStat:
      return body.empty() ? answer(from, stat()) : answer(from, Code::kMalformed);
    case Method::kPutPiece:
      return put_piece(from, session, body);
    case Method::kPutCommit:
      return put_commit(from, session, body);
    case Method::kPutAbandon:
      return put_abandon(from, session, body);
    case Method::kViewPiece:
      return view_piece(from, session, body);
    case Method::kViewClose:
      return view_close(from, session, body);
    case Method::kStageKey:
      return answer(from, Code::kOk);
    case Method::kBatch:
      return batch(from, session, body);
    case Method::kBatchPiece:
      return answer(from, session.batch.add(body));
    default:
      return is_keyed(prepared.method) ? execute_keyed(prepared) : answer(from, Code::kUnsupported);
  }
}

void TableService::execute_keyed(const Prepared& prepared) noexcept {
  const rpc::Responder& from = prepared.call->from;
  const KeyedCall& call = prepared.keyed;
  if (prepared.method == Method::kPut && put_plainly(from, call)) [[likely]]
    return;
  switch (prepared.method) {
    case Method::kGet:
      return get(from, *prepared.session, call);
    case Method::kExists:
      return exists(from, call);
    case Method::kPutPulled:
      if (call.source.address.region() < prepared.session->pull_region_min)
        return answer(from, Code::kUnsupported);
      [[fallthrough]];
    default:
      return change(from, *prepared.session, prepared.method, call);
  }
}

void TableService::answer(const rpc::Responder& to, Code code, std::span<const std::byte> head,
                          std::span<const std::byte> tail) noexcept {
  overloaded_ += code == Code::kOverloaded ? 1 : 0;
  if (server_ != nullptr) server_->reply(to, code, head, tail);
}

Code TableService::stage_key(Open& session, std::span<const std::byte> body) {
  const auto request = wire::take<wire::StageKeyRequest>(body);
  if (!request || request->place >= wire::kStagedKeysPerSession || request->reserved != 0 ||
      request->reserved_end != 0) {
    return Code::kMalformed;
  }
  return session.state.stage(request->place, request->offset, body);
}

void TableService::get(const rpc::Responder& to, Open& session, const KeyedCall& call) {
  const Result<Table::Entry> entry = parts_.table.find(call.key);
  if (!entry) return answer(to, entry.error().code);
  wire::GetReply reply{.version = entry->version,
                       .value_bytes = entry->value.size(),
                       .expires_wall_ns = entry->expires_wall_ns,
                       .view = 0};
  const size_t room = session.payload_bytes_max - sizeof(reply);
  if (entry->value.size() <= room) return answer(to, reply, entry->value);
  SessionState::View* view = session.state.free_view(entry->value.size(), parts_.shard.now_ns());
  if (view == nullptr) return answer(to, Code::kOverloaded);
  view->id = reply.view = parts_.heap.next_stamp();
  session.state.pin(*view, entry->buffer, entry->value);
  if (!call.wants_window) return answer(to, reply, entry->value.first(room));
  if (view->bytes() >= session.one_sided_bytes_min) {
    const auto at = static_cast<uint64_t>(entry->value.data() - parts_.writer.base());
    session.state.open_window(*view, parts_.writer.base() + at);
  }
  const struct {
    wire::GetReply get;
    wire::WindowReply window;
  } both{.get = reply, .window = reply_of(view->window)};
  answer(to, both, entry->value.first(view->window ? 0 : room - sizeof(wire::WindowReply)));
}

void TableService::exists(const rpc::Responder& to, const KeyedCall& call) {
  const Result<Table::Entry> entry = parts_.table.find(call.key);
  if (!entry) return answer(to, entry.error().code);
  answer(to, wire::ExistsReply{.version = entry->version,
                               .value_bytes = entry->value.size(),
                               .expires_wall_ns = entry->expires_wall_ns});
}

// What most puts are: nothing to look up or remember beforehand, and nothing to wait for. False: it did not
// succeed, and nothing has changed.
bool TableService::put_plainly(const rpc::Responder& to, const KeyedCall& call) {
  if (call.identity.client != 0 || call.ttl_ns != 0) return false;
  const Result<uint64_t> version =
      parts_.table.put(call.key, call.value, {.if_absent = call.if_absent, .if_version = call.if_version});
  if (!version) return false;
  answer_when_confirmed(to, wire::VersionReply{*version});
  return true;
}

void TableService::change(const rpc::Responder& to, Open& session, Method method, const KeyedCall& call) {
  const Write request{
      .method = method,
      .key = call.key,
      .value = call.value,
      .value_bytes = call.value_bytes,
      .wants_window = call.wants_window,
      .options = {.if_absent = call.if_absent,
                  .if_version = call.if_version,
                  .expires_wall_ns = writes::expiry(parts_.shard.clock(), call.ttl_ns),
                  .request = {.client = call.identity.client, .sequence = call.identity.sequence}},
      .attempt = attempt_of(session, call.identity),
      .source = call.source,
      .give_up_ns = moment_after(parts_.shard.now_ns(), call.timeout_ns)};
  write_or_wait(to, session, request);
}

void TableService::write_or_wait(const rpc::Responder& to, Open& session, const Write& request) {
  const Result<Written> written = write(session, request);
  if (!may_wait(request, written.code())) {
    if (!written) drop_pulled(session, request);
    return answer_write(to, request, written);
  }
  const Code code = wait(to, request, written.code());
  if (code == Code::kOk) return;
  drop_pulled(session, request);
  answer(to, code);
}

void TableService::answer_write(const rpc::Responder& to, const Write& write,
                                const Result<Written>& written) noexcept {
  if (!written) return answer_when_confirmed(to, written.error().code);
  if (write.method == Method::kPutPulled && written->upload != 0) {
    return start_pull(to, write, written->upload);
  }
  if (write.method != Method::kPutBegin) {
    return answer_when_confirmed(to, wire::VersionReply{written->version});
  }
  if (written->upload == 0) {
    return answer_when_confirmed(to, wire::AlreadyPutReply{.no_upload = 0, .version = written->version});
  }
  const wire::Handle upload{written->upload};
  if (!write.wants_window) return answer(to, upload);
  const struct {
    wire::Handle upload;
    wire::WindowReply window;
  } both{.upload = upload, .window = reply_of(written->window)};
  answer(to, both);
}

Result<TableService::Written> TableService::write(Open& session, const Write& write) {
  if (write.method == Method::kPutCommit || write.upload != 0) return commit(session, write.upload);
  if (const auto known = settled(write)) return Written::from(*known);
  if (write.method == Method::kPutBegin || write.method == Method::kPutPulled) {
    const Result<Written> begun = begin(session, write);
    if (!begun) remember(session, write.options.request, fail(begun.error()));
    return begun;
  }
  const Result<uint64_t> version = write.method == Method::kErase
                                       ? parts_.table.erase(write.key, write.options.if_version)
                                       : parts_.table.put(write.key, write.value, write.options);
  remember(session, write.options.request, version);
  return Written::from(version);
}

Result<TableService::Written> TableService::begin(Open& session, const Write& write) {
  SessionState::Upload* upload = session.state.free_upload(write.value_bytes, parts_.shard.now_ns());
  if (upload == nullptr || !make_room_for_upload(write.value_bytes)) return fail(Code::kOverloaded);
  const Result<Table::Draft> draft = parts_.table.begin(write.key, write.value_bytes, write.options);
  if (!draft) return fail(draft.error());
  session.state.begin(*upload, parts_.heap.next_stamp(), *draft, write.options);
  if (write.wants_window && upload->bytes() > 0 && upload->bytes() >= session.one_sided_bytes_min) {
    session.state.open_window(*upload, parts_.table.value_of(upload->draft));
  }
  return Written{.upload = upload->id, .window = upload->window};
}

void TableService::put_piece(const rpc::Responder& to, Open& session, std::span<const std::byte> body) {
  const auto request = wire::take<wire::PutPieceRequest>(body);
  if (!request) return answer(to, Code::kMalformed);
  SessionState::Upload* upload = session.state.find_upload(request->upload, parts_.shard.now_ns());
  if (upload == nullptr) return answer(to, Code::kInvalidated);
  if (upload->window || request->offset != upload->filled || body.size() > upload->bytes() - upload->filled) {
    return answer(to, Code::kInvalidArgument);
  }
  parts_.table.fill(upload->draft, request->offset, body);
  upload->filled += body.size();
  answer(to, Code::kOk);
}

void TableService::put_commit(const rpc::Responder& to, Open& session, std::span<const std::byte> body) {
  const uint64_t id = only_handle(body);
  if (id == 0) return answer(to, Code::kMalformed);
  write_or_wait(to, session, {.method = Method::kPutCommit, .upload = id});
}

// A client that forgot its upload does not hold up those of others.
bool TableService::make_room_for_upload(uint64_t bytes) {
  const uint64_t most = parts_.upload_bytes_max;
  while (upload_bytes_ > 0 && (upload_bytes_ >= most || bytes > most - upload_bytes_)) {
    const bool has_one_less = std::ranges::any_of(sessions_, [this](const auto& session) {
      return session.second->state.abandon_idle_upload(parts_.shard.now_ns());
    });
    if (!has_one_less) return false;
  }
  return true;
}

Result<TableService::Written> TableService::commit(Open& session, uint64_t upload_id) {
  SessionState::Upload* upload = session.state.find_upload(upload_id, parts_.shard.now_ns());
  if (upload == nullptr) return fail(Code::kInvalidated);
  const bool had_window = upload->window.has_value();
  if (!session.state.seal(*upload)) {
    // Where the gaps of a window are is not known; pieces may continue.
    if (had_window) session.state.abandon(*upload);
    return fail(Code::kInvalidArgument);
  }
  const RequestId request = upload->options.request;
  // The same write, sent again over another session, may have been quicker.
  if (const auto known = outcomes_.find(request)) {
    session.state.abandon(*upload);
    return Written::from(known->result());
  }
  const Result<uint64_t> version = parts_.table.commit(upload->draft, upload->options);
  remember(session, request, version);
  // Without room for the slot, or in the log, nothing is lost: the commit waits, or is sent again.
  const bool is_kept = version.code() == Code::kNoSpace || version.code() == Code::kOverloaded;
  if (!is_kept) session.state.forget(*upload);
  return Written::from(version);
}

void TableService::put_abandon(const rpc::Responder& to, Open& session, std::span<const std::byte> body) {
  const uint64_t id = only_handle(body);
  if (id == 0) return answer(to, Code::kMalformed);
  SessionState::Upload* upload = session.state.find_upload(id, parts_.shard.now_ns());
  if (upload == nullptr) return answer(to, Code::kInvalidated);
  session.state.abandon(*upload);
  answer(to, Code::kOk);
}

void TableService::view_piece(const rpc::Responder& to, Open& session, std::span<const std::byte> body) {
  const auto request = wire::take<wire::ViewPieceRequest>(body);
  if (!request || !body.empty()) return answer(to, Code::kMalformed);
  const SessionState::View* view = session.state.find_view(request->view, parts_.shard.now_ns());
  if (view == nullptr) return answer(to, Code::kInvalidated);
  if (request->offset > view->bytes() || request->bytes > view->bytes() - request->offset) {
    return answer(to, Code::kInvalidArgument);
  }
  if (request->bytes > session.payload_bytes_max) return answer(to, Code::kTooLarge);
  answer(to, Code::kOk, {}, view->shown.subspan(request->offset, request->bytes));
}

void TableService::view_close(const rpc::Responder& to, Open& session, std::span<const std::byte> body) {
  const uint64_t id = only_handle(body);
  if (id == 0) return answer(to, Code::kMalformed);
  SessionState::View* view = session.state.find_view(id, parts_.shard.now_ns());
  if (view == nullptr) return answer(to, Code::kInvalidated);
  session.state.close(*view);
  answer(to, Code::kOk);
}

void TableService::ping(const rpc::Responder& to, std::span<const std::byte> body) {
  const auto request = wire::take<wire::PingRequest>(body);
  if (!request || !body.empty()) return answer(to, Code::kMalformed);
  answer(to, wire::PingReply{.nonce = request->nonce, .wall_ns = parts_.shard.clock().wall_ns()});
}

}  // namespace refract::kv
