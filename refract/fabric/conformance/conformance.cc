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

}  // namespace

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
    if (completion.op == Op::kReceive) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(completion.bytes.data()) % 8, 0u)
          << "a message is 8-byte aligned";
      EXPECT_EQ(completion.code, Code::kOk);
    }
    const Event* const closed = find(Op::kClosed, completion.channel);
    const bool was_closed = closed != nullptr && closed->completion.value == 0;
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
  while (!done()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    turn();
  }
  return true;
}

void ChannelConformance::quiet() {
  for (size_t i = 0; i < kQuietTurns; ++i) turn();
}

ChannelConformance::Pair ChannelConformance::open() {
  const size_t accepted_before = server_->count(Op::kOpened);
  const Reported<Channel*> channel = fixture_->connect();
  if (!channel) {
    ADD_FAILURE() << channel.error().to_string();
    return {};
  }
  const bool opened = settle([&] {
    return client_->find(Op::kOpened, *channel) != nullptr && server_->count(Op::kOpened) > accepted_before;
  });
  if (!opened || client_->find(Op::kOpened, *channel)->completion.code != Code::kOk) {
    ADD_FAILURE() << "the channel did not open at both ends";
    return {};
  }
  const auto accepted = std::find_if(server_->events().rbegin(), server_->events().rend(),
                                     [](const Event& event) { return event.completion.op == Op::kOpened; });
  EXPECT_EQ(accepted->completion.code, Code::kOk);
  return {*channel, accepted->completion.channel};
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

bool ChannelConformance::post(Channel& channel, std::span<const Request> requests) {
  return settle([&] {
    const size_t taken = channel.post(requests);
    EXPECT_LE(taken, requests.size());
    requests = requests.subspan(taken);
    return requests.empty();
  });
}

void ChannelConformance::await_return(const Channel& channel) {
  quiet();
  EXPECT_TRUE(settle([&] { return client_->find(Op::kClosed, &channel) == nullptr; }))
      << "the channel stayed away";
}

Event ChannelConformance::perform(Channel& channel, Request request) {
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
  EXPECT_EQ(event.completion.channel, &channel);
  return event;
}

}  // namespace refract::fabric
