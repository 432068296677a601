// SPDX-License-Identifier: Apache-2.0
// Of transactions over several nodes: docs/design/070.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "refract/kv/owner/transactions/transaction_service.h"

namespace refract::kv {

using wire::Fate;

namespace {

struct Names {
  wire::FatesRequest head{};
  std::vector<TransactionName> names;
};

// Nothing: it is malformed.
std::optional<Names> names_of(std::span<const std::byte> body) {
  const auto head = wire::take<wire::FatesRequest>(body);
  if (!head || head->names == 0 || head->names > wire::kFatesPerCall || head->is_demanded > 1) return {};
  if (body.size() != head->names * sizeof(wire::NameRequest)) return {};
  Names asked{.head = *head, .names = {}};
  for (uint32_t i = 0; i < head->names; ++i) {
    const auto name = *wire::take<wire::NameRequest>(body);
    asked.names.push_back({.place = {name.place}, .number = name.number});
    if (!asked.names.back().place.is_far()) return {};
  }
  return asked;
}

}  // namespace

void TransactionService::prepare_far(Asked asked, Open& session, std::span<const std::byte> body) {
  if (!far_) return answer(asked.from, Code::kUnsupported);
  const auto generation = wire::take<uint64_t>(body);
  std::span<const std::byte> rest = body;
  const auto part = wire::take<wire::PartRequest>(rest);
  if (!generation || *generation == 0 || !part) return answer(asked.from, Code::kMalformed);
  const DecisionPlace home{part->place};
  const bool is_other = home.is_far() && home.member() < far_->nodes().members();
  if (!is_other || home.member() == far_->nodes().self()) return answer(asked.from, Code::kInvalidArgument);
  // Its keys would be held until that one is back.
  if (parts_.table.parts()->is_away(home.member())) return answer(asked.from, Code::kUnavailable);
  asked.generation = *generation;
  change(std::move(asked), session, body);
}

void TransactionService::decide_far(Asked asked, Open& session, std::span<const std::byte> body) {
  if (!far_) return answer(asked.from, Code::kUnsupported);
  struct Head {
    uint64_t generation;
    uint32_t parts;
    uint32_t reserved;
  };
  const auto head = wire::take<Head>(body);
  if (!head || head->parts == 0 || head->parts > wire::kFarPartsMax || head->reserved != 0) {
    return answer(asked.from, Code::kMalformed);
  }
  // The parts ask by another memory's name.
  if (head->generation != parts_.generation) return answer(asked.from, Code::kInvalidated);
  // Behind the part's own head, whose places these are.
  const size_t places = head->parts * sizeof(wire::FarPlace);
  if (body.size() < sizeof(wire::PartRequest) + places) return answer(asked.from, Code::kMalformed);
  std::vector<std::byte> part(body.begin(), body.end());
  std::span<const std::byte> rest = std::span<const std::byte>(part).subspan(sizeof(wire::PartRequest));
  for (uint32_t i = 0; i < head->parts; ++i) {
    const auto place = *wire::take<wire::FarPlace>(rest);
    const bool is_other = place.member < far_->nodes().members() && place.member != far_->nodes().self();
    const bool is_known = std::ranges::find(asked.far_places, place) != asked.far_places.end();
    if (!is_other || is_known || place.shard == HomeWords::kAnyShard) {
      return answer(asked.from, Code::kInvalidArgument);
    }
    asked.far_places.push_back(place);
  }
  const auto begin = part.begin() + sizeof(wire::PartRequest);
  part.erase(begin, begin + static_cast<ptrdiff_t>(places));
  change(std::move(asked), session, part);
}

void TransactionService::settle_far(const rpc::Responder& to, std::span<const std::byte> body) {
  if (!far_) return answer(to, Code::kUnsupported);
  const auto request = wire::take<wire::FarSettleRequest>(body);
  const bool is_sound = request && body.empty() && DecisionPlace{request->name.place}.is_far() &&
                        request->fate <= static_cast<uint64_t>(Fate::kNever);
  if (!is_sound) return answer(to, Code::kMalformed);
  const TransactionName name{.place = {request->name.place}, .number = request->name.number};
  // Where it waits for its turn, its client does not wait for it any more.
  const auto is_it = [&](const Asked& one) { return one.session == to.session.bits && one.name == name; };
  if (std::optional<Asked> waiting = waiting_.remove(is_it)) answer(waiting->from, Code::kConflict);
  answer(to, parts_.table.parts()->settle_far(name, to.session.bits, static_cast<Fate>(request->fate)));
  far_->stir();
  look_at_ended();
}

// As the home, of a name without its member.
Fate TransactionService::fate_of(const TransactionName& name, bool is_demanded) {
  Decision decision = parts_.decisions.look(name.place);
  if (is_demanded && decision.number() >> kNumbersShift == name.number >> kNumbersShift) {
    decision = parts_.decisions.decide(name.place, Decision::aborted(name.number));
  }
  if (decision.commits(name.number)) return decision.is_unconfirmed() ? Fate::kUnconfirmed : Fate::kHappened;
  if (decision.is_claimed() && decision.number() == name.number) return Fate::kOpen;
  const bool is_of_range = decision.number() >> kNumbersShift == name.number >> kNumbersShift;
  const bool is_open = is_of_range && decision.number() < name.number && !decision.is_committed();
  // Of a later range, or one number before it has committed: what is not decided for never is.
  return is_open ? Fate::kOpen : Fate::kNever;
}

// An address may be another node's by now.
bool TransactionService::is_meant(const wire::FatesRequest& request) const noexcept {
  return request.placement == far_->nodes().placement_of(far_->nodes().self());
}

void TransactionService::tell_fates(const rpc::Responder& to, std::span<const std::byte> body) {
  if (!far_) return answer(to, Code::kUnsupported);
  const std::optional<Names> asked = names_of(body);
  if (!asked) return answer(to, Code::kMalformed);
  if (!is_meant(asked->head)) return answer(to, Code::kInvalidated);
  if (!parts_.decisions.are_recovered()) return answer(to, Code::kOverloaded);
  std::array<std::byte, wire::kFatesPerCall> fates{};
  for (size_t i = 0; i < asked->names.size(); ++i) {
    const TransactionName name{.place = asked->names[i].place.at_home(), .number = asked->names[i].number};
    const bool is_here = asked->names[i].place.member() == far_->nodes().self() &&
                         parts_.decisions.is_sound(name.place) && name.place.shard() == parts_.shard_index;
    // A client has made the name up; or another memory had the word, which has gone with what it had decided,
    // but for what its log has.
    const bool is_lost = !is_here || asked->head.generation != parts_.generation;
    const Fate of_before =
        parts_.table.parts()->has_decided_before(asked->names[i]) ? Fate::kHappened : Fate::kNever;
    fates[i] = static_cast<std::byte>(is_lost ? of_before : fate_of(name, asked->head.is_demanded != 0));
  }
  answer(to, Code::kOk, std::span(fates).first(asked->names.size()));
}

void TransactionService::tell_gone(const rpc::Responder& to, std::span<const std::byte> body) {
  if (!far_) return answer(to, Code::kUnsupported);
  const std::optional<Names> asked = names_of(body);
  if (!asked) return answer(to, Code::kMalformed);
  if (!is_meant(asked->head)) return answer(to, Code::kInvalidated);
  // What a killed server has settled is in memory, and may not be on the disk yet: a start from there has the
  // part open again.
  if (!parts_.decisions.are_recovered()) return answer(to, Code::kOverloaded);
  std::array<std::byte, wire::kFatesPerCall> gone{};
  for (size_t i = 0; i < asked->names.size(); ++i) {
    gone[i] = parts_.table.parts()->is_gone(asked->names[i]) ? std::byte{1} : std::byte{0};
  }
  answer(to, Code::kOk, std::span(gone).first(asked->names.size()));
  far_->stir();
}

void TransactionService::tell_open_far(const rpc::Responder& to, std::span<const std::byte> body) {
  if (!far_) return answer(to, Code::kUnsupported);
  const auto request = wire::take<wire::OpenFarRequest>(body);
  if (!request || !body.empty()) return answer(to, Code::kMalformed);
  const Table::Parts& parts = *parts_.table.parts();
  const std::vector<const HeldPart*> open = parts.open_far();
  const uint64_t now_ns = parts_.shard.refresh_now();
  const auto since = [now_ns](uint64_t then_ns) { return now_ns - std::min(now_ns, then_ns); };
  std::array<wire::OpenFarPart, wire::kOpenFarPerCall> told{};
  wire::OpenFarReply reply{.parts = static_cast<uint32_t>(open.size()), .told = 0};
  for (size_t i = request->from; i < open.size() && reply.told < told.size(); ++i) {
    const HeldPart& part = *open[i];
    const uint64_t away_since_ns = parts.away_since(part.from.name.place.member());
    told[reply.told++] = {.name = {.place = part.from.name.place.bits, .number = part.from.name.number},
                          .age_ns = since(part.from.now_ns),
                          .silent_ns = away_since_ns != 0 ? since(away_since_ns) : 0,
                          .keys = static_cast<uint32_t>(part.keys.size()),
                          .writes = static_cast<uint32_t>(part.writes.size())};
  }
  if (server_ == nullptr) return;
  server_->reply(to, Code::kOk, std::as_bytes(std::span(&reply, 1)),
                 std::as_bytes(std::span(told).first(reply.told)));
}

void TransactionService::give_up(const rpc::Responder& to, std::span<const std::byte> body) {
  if (!far_) return answer(to, Code::kUnsupported);
  const auto request = wire::take<wire::GiveUpRequest>(body);
  const auto fate = request ? static_cast<Fate>(request->fate) : Fate::kOpen;
  const bool is_sound = request && body.empty() && request->reserved == 0 &&
                        request->fate <= static_cast<uint64_t>(Fate::kNever) && fate != Fate::kOpen;
  if (!is_sound) return answer(to, Code::kMalformed);
  if (request->member >= far_->nodes().members() || request->member == far_->nodes().self()) {
    return answer(to, Code::kInvalidArgument);
  }
  Table::Parts& parts = *parts_.table.parts();
  const uint64_t since_ns = parts.away_since(request->member);
  const bool is_silent = since_ns != 0 && parts_.shard.refresh_now() - since_ns >= wire::kGiveUpAfter_ns;
  const bool has_some = std::ranges::any_of(parts.open_far(), [&](const HeldPart* part) {
    return part->from.name.place.member() == request->member;
  });
  if (has_some && !is_silent) return answer(to, Code::kConflict);
  const wire::GiveUpReply reply{.ended = parts.give_up(request->member, fate)};
  answer(to, Code::kOk, std::as_bytes(std::span(&reply, 1)));
  look_at_ended();
}

std::vector<TransactionName> TransactionService::decided_afar() const {
  std::vector<TransactionName> names;
  if (!far_) return names;
  names = words_.decided_afar();
  for (TransactionName& name : names) {
    name.place = name.place.at_home().seen_from_afar(far_->nodes().self());
  }
  return names;
}

void TransactionService::on_far_answer() noexcept {
  look_at_ended();
  parts_.upkeep.on_far_answer();
}

}  // namespace refract::kv
