// SPDX-License-Identifier: Apache-2.0
// refractd: keeper and server of a node, in one program. See refractd --help.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>

#include "refract/base/log.h"
#include "refract/base/printable.h"
#include "refract/node/config/config.h"
#include "refract/node/keeper/banner.h"
#include "refract/node/keeper/keeper.h"

namespace {

int refuse(const refract::Report& report) {
  std::fprintf(stderr, "refractd: %s\n",
               refract::printable(report.to_string(), refract::LineBreaks::kKept).c_str());
  if (report.code == refract::Code::kCorrupt) return 3;
  return report.code == refract::Code::kInvalidArgument ? 2 : 1;
}

// How a person in the same directory calls the client: beside this program, as it was called.
std::string client_beside(const char* program) {
  const std::string path = program;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "refract" : path.substr(0, slash + 1) + "refract";
}

}  // namespace

int main(int argc, char** argv) {
  auto loaded = refract::node::load_config(argc, argv, environ);
  if (!loaded) return refuse(loaded.error());
  // A file that has reached its limit (ulimit -f) is then an error, as a full disk is one, and not the end.
  (void)std::signal(SIGXFSZ, SIG_IGN);
  if (!loaded->text_to_print.empty()) {
    std::fputs(loaded->text_to_print.c_str(), stdout);
    return 0;
  }
  refract::set_log_level(loaded->config.log_level);
  for (const std::string& warning : loaded->warnings) refract::log_warn("{}", warning);
  auto keeper = refract::node::Keeper::open(loaded->config);
  if (!keeper) return refuse(keeper.error());
  const int code = (*keeper)->run([&] {
    std::fputs(refract::node::start_banner(**keeper, client_beside(argv[0])).c_str(), stdout);
    std::fflush(stdout);
  });
  if ((*keeper)->was_ready()) std::fputs(refract::node::stop_banner(**keeper).c_str(), stdout);
  return code;
}
