// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/conformance.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

namespace refract::fabric {
namespace {

constexpr size_t kPageBytes = 4096;
// Only a broken provider ever waits for so long.
constexpr std::chrono::seconds kPatience{30};
// What is on its way arrives within so many turns; used where the claim is that nothing comes.
constexpr size_t kQuietTurns = 300;

// In the place of one that has been destroyed.
class GoneChannel final : public Channel {
 public:
  [[nodiscard]] size_t post(std::span<const Request>) noexcept override { return 0; }
  [[nodiscard]] size_t room() const noexcept override { return 0; }
  [[nodiscard]] const Capabilities& capabilities() const noexcept override { return capabilities_; }
  void close() noexcept override {}

 private:
  Capabilities capabilities_{.depth = 1, .message_bytes_max = 64};
};

}  // namespace

Channel& End::operator*() const {
  if (side_ != nullptr && side_->is_alive(channel_, life_)) return *channel_;
  static GoneChannel gone;
  if (side_ == nullptr) ADD_FAILURE() << "there is no channel";
  if (side_ != nullptr) side_->misses_a_channel();
  return gone;
}

void Fixture::FreeAligned::operator()(std::byte* memory) const noexcept {
  ::operator delete[](memory, std::align_val_t{kPageBytes});
}

std::span<std::byte> Fixture::memory(size_t bytes) {
  memory_.emplace_back(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{kPageBytes})));
  std::memset(memory_.back().get(), 0, bytes);
  return {memory_.back().get(), bytes};
}

size_t Side::poll(size_t span) {
  const size_t count = domain_->poll(std::span(buffer_).first(span));
  EXPECT_LE(count, span);
  for (const Completion& completion : std::span(buffer_).first(count)) {
    EXPECT_NE(completion.channel, nullptr);
    note(completion);
    if (completion.op == Op::kReceive) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(completion.bytes.data()) % 8, 0u)
          << "a message is 8-byte aligned";
      EXPECT_EQ(completion.code, Code::kOk);
    }
    const Event* const closed = find(Op::kClosed, completion.channel);
    // A channel that opens may have the address of one that has ended.
    const bool was_closed =
        closed != nullptr && closed->completion.value == 0 && completion.op != Op::kOpened;
    EXPECT_FALSE(was_closed) << "nothing comes after the last kClosed";
    if (closed != nullptr && !was_closed) {
      EXPECT_TRUE(completion.op == Op::kOpened || completion.op == Op::kClosed ||
                  completion.code == Code::kUnavailable)
          << "what is posted while a channel is away fails";
      if (completion.op == Op::kOpened || completion.op == Op::kClosed) came_back(completion.channel);
    }
    if (completion.op == Op::kOpened) {
      EXPECT_EQ(find(Op::kOpened, completion.channel), nullptr) << "kOpened comes once";
    } else {
      const Event* opened = find(Op::kOpened, completion.channel);
      EXPECT_TRUE(opened != nullptr || completion.op == Op::kClosed) << "kOpened comes first";
      EXPECT_TRUE(opened == nullptr || opened->completion.code == Code::kOk)
          << "a failed kOpened is the last";
    }
    events_.push_back({completion, {completion.bytes.begin(), completion.bytes.end()}});
  }
  domain_->flush();
  return count;
}

void Side::note(const Completion& completion) {
  Channel* const channel = completion.channel;
  const auto found = std::ranges::find(living_, channel, &Living::channel);
  const bool is_alive = found != living_.end();
  if (completion.op == Op::kClosed && completion.value == 0 && is_alive) living_.erase(found);
  if (completion.op == Op::kOpened && completion.code == Code::kOk && !is_alive) {
    living_.push_back({.channel = channel, .life = ++opened_});
  }
}

End Side::newest() noexcept {
  if (living_.empty() || living_.back().life != opened_) return {};
  return {*this, *living_.back().channel, opened_};
}

End Side::end_of(const Channel* channel) noexcept {
  const auto found = std::ranges::find(living_, channel, &Living::channel);
  return found == living_.end() ? End() : End(*this, *found->channel, found->life);
}

bool Side::is_alive(const Channel* channel, uint64_t life) const noexcept {
  const auto found = std::ranges::find(living_, life, &Living::life);
  return found != living_.end() && found->channel == channel;
}

void Side::misses_a_channel() {
  if (std::exchange(has_missed_a_channel_, true)) return;
  ADD_FAILURE() << "a channel has ended that the test needs: no test closed it, so its path was lost";
}

void Side::came_back(const Channel* channel) {
  std::erase_if(events_, [channel](const Event& event) {
    const bool is_of_life = event.completion.op == Op::kOpened || event.completion.op == Op::kClosed;
    return is_of_life && event.completion.channel == channel;
  });
}

const Event* Side::find(uint64_t token) const {
  const auto found = std::find_if(events_.begin(), events_.end(), [token](const Event& event) {
    return event.completion.op <= Op::kSend && event.completion.token == token;
  });
  return found == events_.end() ? nullptr : &*found;
}

const Event* Side::find(Op op, const Channel* channel) const {
  const auto found = std::find_if(events_.begin(), events_.end(), [op, channel](const Event& event) {
    return event.completion.op == op && (channel == nullptr || event.completion.channel == channel);
  });
  return found == events_.end() ? nullptr : &*found;
}

size_t Side::count(Op op, const Channel* channel) const {
  return static_cast<size_t>(std::count_if(events_.begin(), events_.end(), [op, channel](const Event& event) {
    return event.completion.op == op && (channel == nullptr || event.completion.channel == channel);
  }));
}

std::unique_ptr<Event> Side::take_message() {
  const auto found = std::find_if(events_.begin(), events_.end(),
                                  [](const Event& event) { return event.completion.op == Op::kReceive; });
  if (found == events_.end()) return nullptr;
  auto message = std::make_unique<Event>(std::move(*found));
  events_.erase(found);
  return message;
}

void ChannelConformance::SetUp() {
  fixture_ = GetParam().make();
  ASSERT_NE(fixture_, nullptr);
  client_ = std::make_unique<Side>(fixture_->client());
  server_ = std::make_unique<Side>(fixture_->server());
}

void ChannelConformance::TearDown() {
  client_.reset();
  server_.reset();
  fixture_.reset();
}

void ChannelConformance::turn() {
  client_->poll();
  fixture_->pump();
  if (server_alive_) {
    server_->poll();
    fixture_->pump();
  }
}

bool ChannelConformance::settle(const std::function<bool()>& done) {
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    const bool is_done = done();
    if (has_missed_a_channel()) return false;
    if (is_done) return true;
    if (std::chrono::steady_clock::now() > give_up) return false;
    turn();
  }
}

void ChannelConformance::quiet() {
  for (size_t i = 0; i < kQuietTurns && !has_missed_a_channel(); ++i) turn();
}

ChannelConformance::Pair ChannelConformance::open() {
  const uint64_t accepted_before = server_->opened();
  const Reported<Channel*> channel = fixture_->connect();
  if (!channel) {
    ADD_FAILURE() << channel.error().to_string();
    return {};
  }
  const Event* opened = nullptr;
  (void)settle([&] {
    opened = client_->find(Op::kOpened, *channel);
    const bool has_failed = opened != nullptr && opened->completion.code != Code::kOk;
    return has_failed || (opened != nullptr && server_->opened() > accepted_before);
  });
  const Pair pair = {client_->end_of(*channel), server_->newest()};
  if (pair.client == nullptr || pair.server == nullptr || server_->opened() == accepted_before) {
    ADD_FAILURE() << "the channel did not open at both ends" << (opened == nullptr ? "" : ": ")
                  << (opened == nullptr ? "" : text(opened->completion.code));
    return {};
  }
  return pair;
}

void ChannelConformance::serve(Rights rights) {
  if (region_.empty()) region_ = fixture_->memory(kRegionBytes);
  for (size_t i = 0; i < region_.size(); ++i) region_[i] = static_cast<std::byte>(i * 7 + i / 256);
  const Reported<RemoteKey> key = fixture_->server().register_region(
      {.region = kRegion, .base = region_.data(), .bytes = region_.size(), .rights = rights});
  ASSERT_TRUE(key.has_value()) << key.error().to_string();
  EXPECT_NE(key->bits, 0u);
  key_ = *key;
}

bool ChannelConformance::post(const End& channel, std::span<const Request> requests) {
  return settle([&] {
    const size_t taken = channel->post(requests);
    EXPECT_LE(taken, requests.size());
    requests = requests.subspan(taken);
    return requests.empty();
  });
}

void ChannelConformance::await_return(const End& channel) {
  quiet();
  EXPECT_TRUE(settle([&] { return client_->find(Op::kClosed, channel) == nullptr; }))
      << "the channel stayed away";
}

Event ChannelConformance::perform(const End& channel, Request request) {
  request.token = next_token_++;
  if (!post(channel, {&request, 1})) {
    ADD_FAILURE() << "the channel never had room";
    return {};
  }
  if (!settle([&] { return client_->find(request.token) != nullptr; })) {
    ADD_FAILURE() << "the request never completed";
    return {};
  }
  Event event = *client_->find(request.token);
  EXPECT_EQ(event.completion.op, request.op);
  EXPECT_EQ(event.completion.channel, channel);
  return event;
}

}  // namespace refract::fabric
