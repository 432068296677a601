// SPDX-License-Identifier: Apache-2.0
#include "refract/node/server.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <utility>

#include "refract/base/log.h"
#include "refract/runtime/shard_thread.h"

namespace refract::node {
namespace {

void settle_in(pid_t keeper) {
  // Die with the keeper: without it nobody could attach, and the memory would have two owners after a new
  // start.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != keeper) _exit(kExitFailed);
  prctl(PR_SET_NAME, "refractd");
  prctl(PR_SET_DUMPABLE, 0);
  // Ctrl-C reaches the whole group; the keeper decides when the server ends.
  signal(SIGINT, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  signal(SIGTERM, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
}

class Server {
 public:
  explicit Server(ServerBirth birth) : config_(birth.config) {
    for (ShardBirth& shard : birth.shards) shards_.push_back(std::make_unique<ShardServer>(std::move(shard)));
  }

  [[nodiscard]] int run() {
    for (uint32_t index = 1; index < shards_.size(); ++index) {
      auto thread = runtime::ShardThread::start({.name = fmt::format("refractd/{}", index)},
                                                [this, index] { return run_shard(index); });
      if (!thread) return fail_with(thread.error());
      threads_.push_back(std::move(*thread));
    }
    return run_shard(0);
  }

 private:
  int run_shard(uint32_t index) {
    if (config_.server_cpu >= 0) {
      const auto bound = runtime::bind_this_thread(static_cast<uint32_t>(config_.server_cpu) + index);
      if (!bound) log_warn("{}", bound.error().what);
    }
    if (const int code = shards_[index]->open(); code != 0) return code;
    return shards_[index]->run();
  }

  const NodeConfig& config_;
  std::vector<std::unique_ptr<ShardServer>> shards_;
  std::vector<std::unique_ptr<runtime::ShardThread>> threads_;
};

}  // namespace

int run_server(ServerBirth birth) {
  settle_in(birth.keeper);
  // Never destroyed: the process ends with _exit, and everything it leaves is what a crash would leave.
  auto* server = new Server(std::move(birth));
  return server->run();
}

}  // namespace refract::node
