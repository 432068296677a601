// SPDX-License-Identifier: Apache-2.0
// A line of a simulated node to a real Redis: each command is answered while virtual time stands still, and
// takes 50 us of it.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/units.h"
#include "refract/object/redis/redis_line.h"
#include "refract/object/testing/redis_process.h"
#include "refract/runtime/shard.h"

namespace refract::object::test {

class SimRedisLine final : public RedisLine {
 public:
  SimRedisLine(runtime::Shard& shard, const RedisProcess& redis) : shard_(shard), redis_(redis) {}

  void open(const std::string& channel, Watcher& watcher) override {
    channel_ = channel;
    watcher_ = &watcher;
    close();
    if (std::exchange(is_kept_, true)) return;
    keeping_ = keep();
    keeping_.start();
  }
  void drop(const Report& /*why*/) noexcept override { close(); }
  [[nodiscard]] runtime::Task<RedisReply> call(std::vector<std::string> arguments) override {
    const uint64_t number = number_;
    co_await shard_.sleep_for(25 * kMicrosecond_ns);
    RedisReply reply;
    if (number != number_ || commands_ == nullptr) co_return reply;
    reply = ask_redis(commands_.get(), arguments);
    if (reply.kind == RedisReply::Kind::kNone) close();
    co_await shard_.sleep_for(25 * kMicrosecond_ns);
    if (number != number_) co_return RedisReply{};
    co_return reply;
  }
  [[nodiscard]] std::string place() const override { return "redis://test"; }
  [[nodiscard]] Report trouble() const override {
    return {commands_ == nullptr ? Code::kUnavailable : Code::kOk, "", ""};
  }
  // As a cut of the network does; it comes back when it may.
  void cut(bool is_cut) {
    is_cut_ = is_cut;
    if (is_cut) close();
  }

 private:
  void close() {
    ++number_;
    commands_.reset();
    news_.reset();
  }
  [[nodiscard]] bool connect() {
    commands_ = redis_.connect();
    news_ = redis_.connect();
    if (commands_ == nullptr || news_ == nullptr) return false;
    const RedisReply info = ask_redis(commands_.get(), {"INFO", "server"});
    const size_t at = info.text.find("run_id:");
    if (at == std::string::npos) return false;
    run_ = info.text.substr(at + 7, info.text.find('\r', at) - at - 7);
    return ask_redis(news_.get(), {"SUBSCRIBE", channel_}).kind == RedisReply::Kind::kList;
  }
  // What was published before the answer to this has come before it.
  void take_news() {
    if (redisAppendCommand(news_.get(), "PING") != REDIS_OK) return;
    const uint64_t number = number_;
    while (number == number_) {
      void* raw = nullptr;
      if (redisGetReply(news_.get(), &raw) != REDIS_OK || raw == nullptr) return close();
      const RedisReply reply = reply_of(static_cast<redisReply*>(raw));
      freeReplyObject(raw);
      if (reply.items.size() < 3) return;
      if (reply.items[0].text == "message") watcher_->line_news(reply.items[2].text);
    }
  }
  [[nodiscard]] runtime::Task<> keep() {
    for (;;) {
      co_await shard_.sleep_for(2 * kMillisecond_ns);
      if (is_cut_) continue;
      if (!connect()) {
        close();
        continue;
      }
      const uint64_t number = number_;
      watcher_->line_opened(run_);
      while (number == number_) {
        take_news();
        co_await shard_.sleep_for(kMillisecond_ns);
      }
      watcher_->line_closed();
    }
  }

  runtime::Shard& shard_;
  const RedisProcess& redis_;
  std::string channel_;
  std::string run_;
  Watcher* watcher_ = nullptr;
  uint64_t number_ = 0;  // Of the connections.
  bool is_kept_ = false;
  bool is_cut_ = false;
  RedisContext commands_;
  RedisContext news_;
  runtime::Task<> keeping_;
};

}  // namespace refract::object::test
