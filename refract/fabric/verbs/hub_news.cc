// SPDX-License-Identifier: Apache-2.0
// What the introducer's channels say, and whose it is.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "refract/base/clock.h"
#include "refract/fabric/verbs/hub.h"

namespace refract::fabric::verbs {
namespace {

using Phase = VerbsChannel::Phase;

// Why an introduction is refused that is none. A client that may goes another way.
Report why_not(std::span<const std::byte> message, Code code) {
  if (code != Code::kUnsupported) {
    return {Code::kMalformed, "the introduction is not what Refract's RDMA wire asks for", ""};
  }
  Header header;
  std::memcpy(&header, message.data(), sizeof(header));
  return {Code::kUnsupported,
          fmt::format("the introduction is of version {} of Refract's RDMA wire, the node speaks {}; "
                      "transport=auto takes another way",
                      header.version, kWireVersion),
          ""};
}

}  // namespace

size_t Hub::hear_introducer(std::span<Completion> completions) noexcept {
  size_t count = 0;
  while (!deferred_.empty() && count < completions.size()) {
    Deferred& first = deferred_.front();
    completions[count++] = {.channel = first.channel,
                            .bytes = std::as_bytes(std::span(first.words)).first(first.bytes),
                            .op = Op::kReceive};
    given_.push_back(std::move(first));
    deferred_.erase(deferred_.begin());
  }
  const size_t room = completions.size() - count;
  if (room == 0) return count;
  polls_until_news_ = kPollsBetweenNews;
  // A stranger's first message may become two completions: kOpened, which was held back, and itself.
  const size_t wanted = strangers_ == 0 ? room : std::max<size_t>(room / 2, 1);
  const std::span<Completion> news = std::span(news_).first(std::min(wanted, news_.size()));
  const size_t heard = introducer_.poll(news);
  for (const Completion& each : news.first(heard)) count += hear_news(each, completions.subspan(count));
  if (introducing_ > 0) give_up_late(system_clock().now_ns());
  if (heard > 0) introducer_.flush();
  return count;
}

size_t Hub::hear_news(const Completion& news, std::span<Completion> completions) noexcept {
  const auto found = links_.find(news.channel);
  if (found != links_.end()) {
    if (found->second.is_stranger) return hear_stranger(news, completions);
    hear_ours(news, found->second);
    return 0;
  }
  if (news.op == Op::kOpened && news.code == Code::kOk && accepted()) {
    links_[news.channel] = {.is_stranger = true, .is_open = true};
    ++strangers_;
    return 0;
  }
  if (news.op == Op::kClosed && news.value == 0) --passed_on_;
  completions[0] = news;
  return 1;
}

// A channel that has opened and was not handed on yet.
size_t Hub::hear_stranger(const Completion& news, std::span<Completion> completions) noexcept {
  Channel& channel = *news.channel;
  if (news.op == Op::kClosed) {
    links_.erase(&channel);
    --strangers_;
    return 0;
  }
  if (news.op != Op::kReceive) return 0;
  const auto kind = kind_of(news.bytes);
  --strangers_;
  if (kind || kind.code() == Code::kUnsupported) {
    Link& link = links_[&channel];
    link.is_stranger = false;
    hear_message(channel, link, news.bytes);
    return 0;
  }
  links_.erase(&channel);
  ++passed_on_;
  completions[0] = {.channel = &channel, .bytes = {}, .op = Op::kOpened};
  if (completions.size() > 1) {
    completions[1] = news;
    return 2;
  }
  Deferred first{.channel = &channel,
                 .words = std::vector<uint64_t>(news.bytes.size() / 8 + 1),
                 .bytes = news.bytes.size()};
  if (!news.bytes.empty()) std::memcpy(first.words.data(), news.bytes.data(), news.bytes.size());
  deferred_.push_back(std::move(first));
  return 1;
}

void Hub::hear_ours(const Completion& news, Link& link) noexcept {
  switch (news.op) {
    case Op::kReceive:
      return hear_message(*news.channel, link, news.bytes);
    case Op::kOpened:
      link.is_open = news.code == Code::kOk;
      if (link.is_open) {
        if (link.channel != nullptr && link.channel->phase() != Phase::kClosing)
          introduce(*news.channel, link);
        return;
      }
      if (link.channel != nullptr) {
        link.channel->set_introducer(nullptr);
        link.channel->failed(news.code);
      }
      links_.erase(news.channel);
      return;
    case Op::kClosed:
      return introducer_closed(*news.channel, link, news.value != 0);
    default:
      // A message of ours that was not taken to the peer is followed by kClosed.
      return;
  }
}

void Hub::introducer_closed(Channel& introducer, Link& link, bool returns) noexcept {
  link.is_open = false;
  enter(link, Stage::kNone);
  // What the peer said before it left is delivered.
  (void)drain_completions();
  VerbsChannel* const channel = link.channel;
  if (channel != nullptr && channel->phase() == Phase::kUnborn) {
    // An end that knows no introductions hangs up on one, too.
    channel->set_introducer(nullptr);
    link.channel = nullptr;
    if (accepted()) {
      channel->abandon();
      dead_.push_back(channel);
    } else {
      last_refusal_ = {Code::kUnavailable,
                       "the peer serves no RDMA, or ended: it closed the connection that asked for it",
                       "the node's log says at its start which device it has, or why none; it is reached "
                       "without RDMA, too"};
      channel->failed(Code::kUnavailable);
      if (returns) introducer.close();
    }
  } else if (channel != nullptr) {
    if (!returns) channel->set_introducer(nullptr);
    const bool is_new_loss = channel->phase() != Phase::kWaiting || !returns;
    if (is_new_loss) channel->cut(returns);
    if (!is_new_loss) channel->drop_queue_pair();
  }
  if (!returns) links_.erase(&introducer);
}

void Hub::hear_message(Channel& introducer, Link& link, std::span<const std::byte> bytes) noexcept {
  // Once, before it is looked at: the peer may be changing the bytes.
  if (bytes.size() > wire_.size()) bytes = bytes.first(0);
  const std::span<std::byte> message = std::span(wire_).first(bytes.size());
  std::ranges::copy(bytes, message.begin());
  const auto kind = kind_of(message);
  bool is_sound = kind.has_value();
  if (is_sound && accepted() && *kind == Kind::kIntroduction) {
    const auto peer = decode_introduction(message);
    if (peer) return admit(introducer, link, *peer);
    is_sound = false;
  } else if (is_sound && *kind == Kind::kAcceptance && !accepted()) {
    const auto peer = decode_introduction(message);
    if (peer) return accept(introducer, link, *peer);
    is_sound = false;
  } else if (is_sound && *kind == Kind::kRefusal && !accepted()) {
    auto why = decode_refusal(message);
    if (why) return hear_refusal(introducer, link, std::move(*why));
    is_sound = false;
  } else if (is_sound && *kind == Kind::kBroken && !accepted()) {
    const auto broken = decode_broken(message);
    if (broken) return hear_broken(link, broken->queue_pair);
    is_sound = false;
  } else {
    is_sound = is_sound && hear_about_regions(introducer, link, *kind, message);
  }
  if (is_sound) return;
  if (link.channel != nullptr) return expel(*link.channel);
  ++counters.malformed;
  (void)tell(introducer, encode_refusal(why_not(message, kind.code())));
}

void Hub::hear_refusal(Channel& introducer, Link& link, Report why) noexcept {
  if (link.stage != Stage::kAsked && link.stage != Stage::kConnecting) return;
  Hope hope = Hope::kNone;
  if (why.code == Code::kUnsupported) hope = Hope::kOtherWay;
  if (why.code == Code::kUnavailable) hope = Hope::kTime;
  came_to_nothing(introducer, link, {.why = std::move(why), .hope = hope});
}

// It may be about a queue pair that this end has given up meanwhile.
void Hub::hear_broken(Link& link, uint32_t queue_pair) noexcept {
  VerbsChannel* const channel = link.channel;
  const bool is_ours =
      channel != nullptr && channel->queue_pair() != nullptr && channel->queue_pair()->number() == queue_pair;
  if (is_ours) lose(*channel, counters.other_errors, "the peer has lost its queue pair");
}

// False: it makes no sense.
bool Hub::hear_about_regions(Channel& introducer, Link& link, Kind kind,
                             std::span<const std::byte> message) noexcept {
  VerbsChannel* const channel = link.channel;
  if (kind == Kind::kQuestion) {
    const auto question = decode_question(message);
    return question && (channel == nullptr || answer(introducer, *channel, *question));
  }
  if (kind == Kind::kAnswer) {
    const auto decoded = decode_answer(message);
    if (decoded && channel != nullptr) channel->take_answer(*decoded);
    return decoded.has_value();
  }
  if (kind == Kind::kRevoked) {
    const auto revoked = decode_revoked(message);
    if (revoked && channel != nullptr) channel->take_revoked(static_cast<uint16_t>(revoked->region));
    return revoked.has_value();
  }
  return false;
}

bool Hub::answer(Channel& introducer, VerbsChannel& channel, const Question& question) noexcept {
  const auto region = static_cast<uint16_t>(question.region);
  const ServedRegions::Row* const row = served_.find(region, {question.key});
  std::array<std::byte, kWireBytesMax> buffer;
  RemoteRegion what;
  what.key = {question.key};
  std::span<const uint32_t> keys;
  if (row != nullptr) {
    keys = row->registration.remote_keys();
    what.bytes = row->spec.first + row->spec.bytes;
    what.chunk_bytes = row->registration.chunk_bytes();
    what.rights = row->spec.rights;
    if (std::ranges::find(channel.resolved_for_peer, region) == channel.resolved_for_peer.end()) {
      channel.resolved_for_peer.push_back(region);
    }
  }
  // A peer that asks and does not read the answers is no peer.
  return tell_bytes(introducer, encode_answer(region, what, keys, buffer));
}

}  // namespace refract::fabric::verbs
