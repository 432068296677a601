// SPDX-License-Identifier: Apache-2.0
#include "refract/node/doctor/doctor_directory.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "refract/base/clock.h"
#include "refract/fabric/tcp/secret.h"
#include "refract/node/redis/node_redis.h"
#include "refract/runtime/shard.h"

namespace refract::node {
namespace {

constexpr uint64_t kDirectoryTimeout_ns = 3 * kSecond_ns;

// Sees whether it stands, or why it did not the first time.
class Visitor final : object::RedisLine::Watcher {
 public:
  Visitor(const RedisAddress& address, const fabric::tcp::Secret* password)
      : line_(shard_, address, password, {.connect_timeout_ns = kDirectoryTimeout_ns, .is_quiet = true}) {}
  [[nodiscard]] Report visit() {
    line_.open("refract:doctor", *this);
    (void)shard_.run_until([this] { return is_open_ || line_.failures() > 0; },
                           shard_.refresh_now() + 2 * kDirectoryTimeout_ns);
    return line_.trouble();
  }
  [[nodiscard]] const std::string& run() const noexcept { return run_; }

 private:
  void line_opened(const std::string& run) noexcept override {
    is_open_ = true;
    run_ = run;
  }
  void line_closed() noexcept override {}
  void line_news(std::string_view /*message*/) noexcept override {}

  runtime::Shard shard_{system_clock()};
  bool is_open_ = false;
  std::string run_;
  NodeRedis line_;
};

}  // namespace

Finding examine_directory(const DoctorInputs& inputs) {
  const auto failed = [](const Report& why) {
    return Finding{"directory", Health::kFail, why.what, why.next};
  };
  const auto address = parse_redis_address(inputs.directory);
  if (!address) return failed(address.error());
  fabric::tcp::Secret password;
  if (!inputs.directory_secret_file.empty()) {
    auto read = fabric::tcp::read_secret(inputs.directory_secret_file);
    if (!read) return failed(read.error());
    password = std::move(*read);
  }
  Visitor visitor(*address, password.bytes().empty() ? nullptr : &password);
  if (const Report trouble = visitor.visit(); trouble.code != Code::kOk) return failed(trouble);
  return {"directory", Health::kOk, fmt::format("{} answers (run {:.8})", to_text(*address), visitor.run()),
          ""};
}

}  // namespace refract::node
