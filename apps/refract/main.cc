// SPDX-License-Identifier: Apache-2.0
// refract: the command line client. See refract --help.
#include <csignal>
#include <cstdlib>
#include <span>
#include <string_view>

#include "apps/refract/command_line.h"
#include "apps/refract/commands.h"
#include "apps/refract/object/object_line.h"
#include "apps/refract/terminal.h"

namespace {

struct Command {
  std::string_view name;
  int (*run)(const refract::cli::Invocation&);
};

constexpr Command kCommands[] = {
    {"get", refract::cli::run_get},           {"put", refract::cli::run_put},
    {"erase", refract::cli::run_erase},       {"cas", refract::cli::run_cas},
    {"scan", refract::cli::run_scan},         {"load", refract::cli::run_load},
    {"dump", refract::cli::run_dump},         {"stat", refract::cli::run_stat},
    {"ping", refract::cli::run_ping},         {"top", refract::cli::run_top},
    {"trace", refract::cli::run_trace},       {"check", refract::cli::run_check},
    {"restore", refract::cli::run_restore},   {"inspect", refract::cli::run_inspect},
    {"chain", refract::cli::run_chain},       {"doctor", refract::cli::run_doctor},
    {"snapshot", refract::cli::run_snapshot}, {"cluster", refract::cli::run_cluster},
    {"txn", refract::cli::run_txn},           {"bank", refract::cli::run_bank},
    {"token", refract::cli::run_token},       {"clear", refract::cli::run_clear}};

}  // namespace

int main(int argc, char** argv) {
  // A reader that goes away, as `head` does, is an error of write(2) and no reason to die.
  (void)std::signal(SIGPIPE, SIG_IGN);
  const char* const socket = std::getenv("REFRACT_SOCKET_PATH");
  const std::span words(argv + (argc > 0 ? 1 : 0), static_cast<size_t>(argc > 0 ? argc - 1 : 0));
  if (const auto at = refract::cli::object_word(words)) {
    const auto invocation = refract::cli::parse_object_line(words, *at, socket);
    if (!invocation) return refract::cli::complain(invocation.error());
    if (invocation->base.command.empty()) return refract::cli::write_out(invocation->base.text_to_print);
    return refract::cli::run_object(*invocation);
  }
  const auto invocation = refract::cli::parse_command_line(argc, argv, socket);
  if (!invocation) return refract::cli::complain(invocation.error());
  if (invocation->command.empty()) return refract::cli::write_out(invocation->text_to_print);
  for (const Command& command : kCommands) {
    if (command.name == invocation->command) return command.run(*invocation);
  }
  return refract::cli::kFailed;
}
