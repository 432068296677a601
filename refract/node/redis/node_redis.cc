// SPDX-License-Identifier: Apache-2.0
#include "refract/node/redis/node_redis.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "refract/base/log.h"
#include "refract/base/prng.h"

namespace refract::node {

using fabric::tcp::NameLookup;
using fabric::tcp::SocketAddress;
using object::RedisReply;
using runtime::Task;

namespace {

// Connections that stood for so long show that Redis is well.
constexpr uint64_t kRedisWellAfter_ns = kSecond_ns;
constexpr uint64_t kAskPause_ns = kSecond_ns;
// While no reply is waited for, an awake shard looks no more often.
constexpr uint64_t kLookPause_ns = 50 * kMicrosecond_ns;
constexpr size_t kReadBytes = 64 * kKiB;
constexpr size_t kOutBytesMax = size_t{64} << 20;
constexpr size_t kCommands = 0;
constexpr size_t kNews = 1;

// The timer ends a sleep of the shard; poll() does the rest.
Task<> wake_at(runtime::Shard& shard, uint64_t until_ns) {
  co_await shard.sleep_until(until_ns);
}

// In one line of a log, however a server words it.
std::string said_by(std::string_view text) {
  constexpr size_t kShown = 160;
  std::string shown(text.substr(0, kShown));
  std::ranges::replace_if(shown, [](char byte) { return byte < ' ' || byte > '~'; }, '?');
  return shown;
}

// "WRONGPASS", "NOAUTH": the word that begins an error; behind it may stand what was sent.
std::string_view first_word(std::string_view text) {
  const auto is_letter = [](char byte) { return byte >= 'A' && byte <= 'Z'; };
  return text.substr(0, static_cast<size_t>(std::ranges::find_if_not(text, is_letter) - text.begin()));
}

std::string_view run_in(std::string_view info) {
  constexpr std::string_view kField = "\nrun_id:";
  const size_t at = info.find(kField);
  if (at == std::string_view::npos) return {};
  info.remove_prefix(at + kField.size());
  return info.substr(0, info.find_first_of("\r\n"));
}

}  // namespace

NodeRedis::NodeRedis(runtime::Shard& shard, RedisAddress address, const fabric::tcp::Secret* password,
                     const Options& options)
    : shard_(shard),
      address_(std::move(address)),
      password_(password),
      options_(options),
      prng_(secure_random_u64()),
      pause_ns_(options.pause_first_ns),
      trouble_{Code::kUnavailable, fmt::format("{} was not reached yet", to_text(address_)), ""} {}

NodeRedis::~NodeRedis() {
  close();
  if (watcher_ != nullptr) shard_.remove(*this);
  if (epoll_) shard_.unwatch(epoll_.get());
}

void NodeRedis::open(const std::string& channel, Watcher& watcher) {
  channel_ = channel;
  if (std::exchange(watcher_, &watcher) == nullptr) shard_.add(*this);
  close();
  dropped_.reset();
  stage_ = Stage::kPause;
  due_ns_ = shard_.now_ns();
  set_alarm(due_ns_);
}

void NodeRedis::drop(const Report& why) noexcept {
  if (!dropped_) dropped_ = why;
}

Report NodeRedis::trouble() const {
  return stage_ == Stage::kUp ? Report{Code::kOk, "", ""} : trouble_;
}

// --- Calls ---

Task<RedisReply> NodeRedis::call(std::vector<std::string> arguments) {
  if (stage_ != Stage::kUp || dropped_ || wires_[kCommands]->out.size() > kOutBytesMax)
    co_return RedisReply{};
  runtime::Pending op =  // NOLINT(misc-const-correctness)
      shard_.ops().begin(shard_.now_ns() + options_.call_timeout_ns);
  if (op.token() == 0) co_return RedisReply{};
  ++counts_.calls;
  append_command(arguments, wires_[kCommands]->out);
  waiting_.push_back(op.token());
  if (const Reported<> flushed = flush(*wires_[kCommands]); !flushed) drop(flushed.error());
  const runtime::OpResult result = co_await op;
  if (result.code == Code::kOk) co_return std::exchange(reply_, {});
  if (result.code == Code::kDeadlineExceeded) {
    drop({Code::kDeadlineExceeded,
          fmt::format("no answer within {} ms", options_.call_timeout_ns / kMillisecond_ns),
          "is it stopped?"});
  }
  co_return RedisReply{};
}

// --- The loop ---

bool NodeRedis::has_work() const noexcept {
  return dropped_ || !ended_wires_.empty() || !waiting_.empty() || shard_.now_ns() >= due_ns_ ||
         shard_.now_ns() >= next_look_ns_;
}

size_t NodeRedis::poll() noexcept {
  if (!has_work()) [[likely]]
    return 0;
  next_look_ns_ = shard_.now_ns() + kLookPause_ns;
  ended_wires_.clear();
  size_t count = 0;
  if (dropped_) {
    fail(*std::exchange(dropped_, std::nullopt));
    ++count;
  }
  if (lookup_) take_lookup();
  if (wires_[kCommands] != nullptr) count += look_at_sockets();
  return count + look_at_time();
}

bool NodeRedis::prepare_sleep() noexcept {
  if (dropped_ || !ended_wires_.empty() || shard_.now_ns() >= due_ns_) return false;
  if (!epoll_) return true;
  epoll_event event{};
  return ::epoll_wait(epoll_.get(), &event, 1, 0) <= 0;
}

size_t NodeRedis::look_at_sockets() {
  std::array<epoll_event, 2> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    const std::unique_ptr<Wire>& wire = wires_[events[static_cast<size_t>(i)].data.u32];
    if (wire == nullptr) break;
    if (const Reported<> looked = look_at(*wire, events[static_cast<size_t>(i)].events); !looked) {
      fail(looked.error());
      break;
    }
  }
  return count > 0 ? static_cast<size_t>(count) : 0;
}

size_t NodeRedis::look_at_time() {
  if (shard_.now_ns() < due_ns_) return 0;
  switch (stage_) {
    case Stage::kPause:
      begin();
      break;
    case Stage::kLookup:
    case Stage::kConnect:
      fail({Code::kDeadlineExceeded,
            fmt::format("no answer within {} ms", options_.connect_timeout_ns / kMillisecond_ns),
            "is it stopped, or its host away?"});
      break;
    case Stage::kUp:
      ask_news_whether_it_is_there();
      break;
  }
  return 1;
}

void NodeRedis::set_alarm(uint64_t moment_ns) {
  due_ns_ = moment_ns;
  alarm_ = wake_at(shard_, moment_ns);
  alarm_.start();
}

// Of the one that says nothing on its own. Commands tell it of the other one.
void NodeRedis::ask_news_whether_it_is_there() {
  Wire& wire = *wires_[kNews];
  if (shard_.now_ns() - wire.heard_ns > options_.call_timeout_ns) {
    return fail({Code::kDeadlineExceeded, "the connection for news has died", ""});
  }
  const std::vector<std::string> ping(1, "PING");
  append_command(ping, wire.out);
  set_alarm(shard_.now_ns() + kAskPause_ns);
  if (const Reported<> flushed = flush(wire); !flushed) fail(flushed.error());
}

// --- Connecting ---

void NodeRedis::begin() {
  if (!epoll_) {
    epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_ || !shard_.watch(epoll_.get())) {
      epoll_ = {};
      return pause({Code::kSystem, "no descriptor for its sockets: " + errno_text(errno), "see ulimit -n"});
    }
  }
  const auto place = fabric::tcp::split_address(address_.place);
  if (!place) return pause(place.error());
  stage_ = Stage::kLookup;
  set_alarm(shard_.now_ns() + options_.connect_timeout_ns);
  place_ = 0;
  if (auto found = fabric::tcp::resolve(*place, /*numbers_only=*/true)) {
    places_ = std::move(*found);
    return try_place();
  }
  auto lookup = NameLookup::begin(*place);
  if (!lookup) return pause(lookup.error());
  lookup_.emplace(std::move(*lookup));
  // Where the kernel refuses, some other event has the shard look.
  (void)shard_.watch(lookup_->descriptor());
}

void NodeRedis::take_lookup() {
  auto found = lookup_->take();
  if (!found) return;
  shard_.unwatch(lookup_->descriptor());
  lookup_.reset();
  if (!*found) return pause(found->error());
  places_ = std::move(**found);
  try_place();
}

void NodeRedis::try_place() {
  if (place_ >= places_.size()) return pause({Code::kNotFound, "its name has no address", ""});
  stage_ = Stage::kConnect;
  for (size_t i = 0; i < wires_.size(); ++i) {
    wires_[i] = std::make_unique<Wire>();
    if (const Reported<> begun = connect(*wires_[i]); !begun) return fail(begun.error());
    epoll_event wanted{};
    wanted.events = EPOLLIN | EPOLLOUT;
    wanted.data.u32 = static_cast<uint32_t>(i);
    wires_[i]->waits_to_write = true;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wires_[i]->socket.get(), &wanted) != 0) {
      return fail({Code::kSystem, "its socket cannot be watched: " + errno_text(errno), ""});
    }
    greet(*wires_[i], i == kNews);
  }
}

Reported<> NodeRedis::connect(Wire& wire) {
  const SocketAddress& address = places_[place_];
  wire.socket = Descriptor(::socket(address.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!wire.socket) return report(Code::kSystem, "no socket: " + errno_text(errno), "see ulimit -n");
  fabric::tcp::tune(wire.socket.get());
  if (::connect(wire.socket.get(), address.get(), address.bytes) == 0 || errno == EINPROGRESS) return {};
  return report(Code::kUnavailable, "cannot connect: " + errno_text(errno), "is Redis running there?");
}

// All at once: an answer that is none ends the connection.
void NodeRedis::greet(Wire& wire, bool is_news) {
  std::vector<std::string> command;
  const auto add = [&](Greeting greeting) {
    append_command(command, wire.out);
    wire.greetings.push_back(greeting);
  };
  if (password_ != nullptr) {
    const auto bytes = password_->bytes();
    command = {"AUTH"};
    if (!address_.user.empty()) command.push_back(address_.user);
    command.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    add(Greeting::kAuth);
  }
  if (address_.database != 0) {
    command = {"SELECT", std::to_string(address_.database)};
    add(Greeting::kSelect);
  }
  command = {"INFO", "server"};
  add(Greeting::kInfo);
  if (!is_news) return;
  command = {"SUBSCRIBE", channel_};
  add(Greeting::kSubscribe);
}

Reported<> NodeRedis::greeted(Wire& wire, const RedisReply& reply) {
  const Greeting greeting = wire.greetings.front();
  wire.greetings.pop_front();
  if (reply.kind == RedisReply::Kind::kError) {
    // What stands behind the first word may be the password.
    if (greeting == Greeting::kAuth) {
      return report(Code::kAccessDenied,
                    fmt::format("it refuses the password ({})", first_word(said_by(reply.text))),
                    "see objects.directory_secret_file");
    }
    const bool wants_password = reply.text.starts_with("NOAUTH") || reply.text.starts_with("NOPERM");
    return report(Code::kUnavailable, "it refuses: " + said_by(reply.text),
                  wants_password ? "see objects.directory_secret_file" : "");
  }
  if (greeting == Greeting::kInfo) {
    wire.run = run_in(reply.text);
    if (wire.run.empty()) {
      return report(Code::kUnsupported, "it does not say which run it is (INFO server: run_id)",
                    "is it a Redis of version 5 or newer?");
    }
  }
  const bool is_greeted = std::ranges::all_of(
      wires_, [](const auto& one) { return one != nullptr && one->is_connected && one->greetings.empty(); });
  if (!is_greeted) return {};
  if (wires_[kCommands]->run != wires_[kNews]->run) {
    return report(Code::kUnavailable, "its address leads to two servers", "name one of them");
  }
  stand();
  return {};
}

void NodeRedis::stand() {
  stage_ = Stage::kUp;
  ++counts_.opened;
  up_ns_ = shard_.now_ns();
  wires_[kNews]->heard_ns = up_ns_;
  set_alarm(up_ns_ + kAskPause_ns);
  if (!told_.empty() && !options_.is_quiet) log_info("the directory in {} is reached", to_text(address_));
  told_.clear();
  const std::string run = wires_[kCommands]->run;
  watcher_->line_opened(run);
}

// --- Sockets ---

Reported<> NodeRedis::look_at(Wire& wire, uint32_t events) {
  if (!wire.is_connected && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0) {
    int error = 0;
    socklen_t bytes = sizeof(error);
    (void)::getsockopt(wire.socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error != 0) {
      return report(Code::kUnavailable, "cannot connect: " + errno_text(error), "is Redis running there?");
    }
    wire.is_connected = true;
  }
  if (wire.is_connected && !wire.out.empty()) {
    if (auto flushed = flush(wire); !flushed) return flushed;
  }
  if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) == 0) return {};
  return read(wire);
}

Reported<> NodeRedis::flush(Wire& wire) {
  while (wire.is_connected && !wire.out.empty()) {
    const ssize_t sent = ::send(wire.socket.get(), wire.out.data(), wire.out.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) {
      return report(Code::kUnavailable, "the connection was lost: " + errno_text(errno), "");
    }
    if (sent < 0) break;
    wire.out.erase(0, static_cast<size_t>(sent));
  }
  const bool waits = !wire.is_connected || !wire.out.empty();
  if (std::exchange(wire.waits_to_write, waits) == waits) return {};
  epoll_event wanted{};
  wanted.events = waits ? EPOLLIN | EPOLLOUT : EPOLLIN;
  wanted.data.u32 = &wire == wires_[kCommands].get() ? kCommands : kNews;
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, wire.socket.get(), &wanted);
  return {};
}

Reported<> NodeRedis::read(Wire& wire) {
  std::array<char, kReadBytes> bytes;
  const ssize_t got = ::recv(wire.socket.get(), bytes.data(), bytes.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (got < 0) return report(Code::kUnavailable, "the connection was lost: " + errno_text(errno), "");
  if (got == 0) return report(Code::kUnavailable, "it has closed the connection", "");
  wire.heard_ns = shard_.now_ns();
  wire.reader.feed({bytes.data(), static_cast<size_t>(got)});
  const Wire* const before = &wire;
  for (;;) {
    auto reply = wire.reader.next();
    if (!reply) return report(reply.error());
    if (!*reply) return {};
    if (auto taken = take(wire, **reply); !taken) return taken;
    // What was resumed may have had this begin again.
    const bool stands = std::ranges::any_of(wires_, [&](const auto& one) { return one.get() == before; });
    if (!stands || dropped_) return {};
  }
}

Reported<> NodeRedis::take(Wire& wire, RedisReply& reply) {
  if (!wire.greetings.empty()) return greeted(wire, reply);
  if (stage_ != Stage::kUp)
    return report(Code::kMalformed, "it answers what was not asked", "is it a Redis?");
  if (&wire == wires_[kNews].get()) {
    if (reply.is_list_of(3) && reply.items[0].text == "message") {
      ++counts_.news;
      watcher_->line_news(reply.items[2].text);
    }
    return {};
  }
  if (waiting_.empty()) return report(Code::kMalformed, "it answers what was not asked", "is it a Redis?");
  const runtime::Token token = waiting_.front();
  waiting_.pop_front();
  reply_ = std::move(reply);
  (void)shard_.ops().complete(token, {.code = Code::kOk});
  reply_ = {};
  return {};
}

// --- Ends ---

void NodeRedis::fail(const Report& why) {
  if (stage_ == Stage::kConnect && ++place_ < places_.size()) {
    close();
    stage_ = Stage::kConnect;
    return try_place();
  }
  pause(why);
}

void NodeRedis::pause(const Report& why) {
  const bool was_up = stage_ == Stage::kUp;
  if (was_up && shard_.now_ns() - up_ns_ >= kRedisWellAfter_ns) pause_ns_ = options_.pause_first_ns;
  trouble_ = {why.code, fmt::format("the directory in {}: {}", to_text(address_), why.what), why.next};
  ++counts_.failures;
  if (told_ != trouble_.what && !options_.is_quiet) log_warn("{}", trouble_.to_line());
  told_ = trouble_.what;
  stage_ = Stage::kPause;
  close();
  // Half of it by chance, so that nodes do not come back all at once.
  set_alarm(shard_.now_ns() + pause_ns_ / 2 + prng_.below(pause_ns_ / 2 + 1));
  pause_ns_ = std::min(2 * pause_ns_, options_.pause_longest_ns);
  if (was_up) watcher_->line_closed();
}

// Calls end without a reply. What they resume finds no connection.
void NodeRedis::close() {
  stage_ = Stage::kPause;
  if (lookup_) shard_.unwatch(lookup_->descriptor());
  lookup_.reset();
  for (std::unique_ptr<Wire>& wire : wires_) {
    if (wire == nullptr) continue;
    if (wire->socket) (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, wire->socket.get(), nullptr);
    ended_wires_.push_back(std::move(wire));
  }
  const std::deque<runtime::Token> calls = std::exchange(waiting_, {});
  for (const runtime::Token token : calls) (void)shard_.ops().complete(token, {.code = Code::kUnavailable});
}

}  // namespace refract::node
