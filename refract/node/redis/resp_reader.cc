// SPDX-License-Identifier: Apache-2.0
#include "refract/node/redis/resp_reader.h"

#include <fmt/format.h>
#include <hiredis/hiredis.h>
#include <hiredis/read.h>

#include <utility>

namespace refract::node {

using object::RedisReply;

void append_command(std::span<const std::string> arguments, std::string& bytes) {
  bytes += fmt::format("*{}\r\n", arguments.size());
  for (const std::string& argument : arguments) {
    bytes += fmt::format("${}\r\n", argument.size());
    bytes.append(argument).append("\r\n");
  }
}

// What hiredis builds a reply from: each part in its place. A null is its word for "no memory", which ends
// the reply.
struct RespReader::Building {
  RedisReply root;
  size_t parts = 0;

  static RedisReply* place(const redisReadTask* task) {
    auto& building = *static_cast<Building*>(task->privdata);
    if (task->parent == nullptr) {
      building.root = {};
      building.parts = 0;
      return &building.root;
    }
    return &static_cast<RedisReply*>(task->parent->obj)->items[static_cast<size_t>(task->idx)];
  }
  static void* text(const redisReadTask* task, char* bytes, size_t count) {
    RedisReply* const reply = place(task);
    reply->kind = task->type == REDIS_REPLY_ERROR ? RedisReply::Kind::kError : RedisReply::Kind::kText;
    reply->text.assign(bytes, count);
    return reply;
  }
  static void* list(const redisReadTask* task, int count) {
    auto& building = *static_cast<Building*>(task->privdata);
    RedisReply* const reply = place(task);
    building.parts += static_cast<size_t>(count);
    if (count < 0 || building.parts > kPartsMax) return nullptr;
    reply->kind = RedisReply::Kind::kList;
    reply->items.resize(static_cast<size_t>(count));
    return reply;
  }
  static void* number(const redisReadTask* task, long long value) {
    RedisReply* const reply = place(task);
    reply->kind = RedisReply::Kind::kNumber;
    reply->number = value;
    return reply;
  }
  static void* nil(const redisReadTask* task) {
    RedisReply* const reply = place(task);
    reply->kind = RedisReply::Kind::kNil;
    return reply;
  }
  static void end(void* /*reply*/) {}

  inline static redisReplyObjectFunctions functions_ = {.createString = text,
                                                        .createArray = list,
                                                        .createInteger = number,
                                                        .createNil = nil,
                                                        .freeObject = end};
};

void RespReader::Free::operator()(redisReader* reader) const noexcept {
  redisReaderFree(reader);
}

RespReader::RespReader()
    : building_(std::make_unique<Building>()),
      reader_(redisReaderCreateWithFunctions(&Building::functions_)) {
  reader_->privdata = building_.get();
}

RespReader::~RespReader() = default;

void RespReader::feed(std::string_view bytes) {
  unread_bytes_ += bytes.size();
  (void)redisReaderFeed(reader_.get(), bytes.data(), bytes.size());
}

Reported<std::optional<RedisReply>> RespReader::next() {
  void* whole = nullptr;
  if (redisReaderGetReply(reader_.get(), &whole) != REDIS_OK) {
    const bool is_memory = reader_->err == REDIS_ERR_OOM;
    return report(Code::kMalformed,
                  is_memory ? fmt::format("a reply has more than {} parts", kPartsMax)
                            : fmt::format("what it answers is not Redis's protocol ({})", reader_->errstr),
                  "is another service at that address?");
  }
  if (whole == nullptr) {
    if (unread_bytes_ <= kBytesMax) return std::optional<RedisReply>();
    return report(Code::kMalformed, fmt::format("a reply is longer than {} bytes", kBytesMax),
                  "is another service at that address?");
  }
  unread_bytes_ = reader_->len - reader_->pos;
  return std::optional(std::move(building_->root));
}

}  // namespace refract::node
