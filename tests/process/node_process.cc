// SPDX-License-Identifier: Apache-2.0
#include "tests/process/node_process.h"

#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

namespace refract::test {

Node::Node(NodeOptions options)
    : socket_path_(options.socket_path.empty() ? folder_.path() + "/node.sock" : options.socket_path) {
  std::vector<std::string> arguments = std::move(options.launcher);
  const std::string program = options.program.empty() ? REFRACTD_PATH : options.program;
  arguments.insert(arguments.end(), {program, "--socket-path", socket_path_});
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  process_ = Process::execute({.arguments = arguments,
                               .output_path = folder_.path() + "/output",
                               .errors_path = folder_.path() + "/errors",
                               .before = options.before});
  if (options.waits) (void)becomes_true([this] { return is_up() || !process_.is_running(); });
}

bool Node::is_up() {
  return output().find("Refract is ready.") != std::string::npos;
}

pid_t Node::server() const {
  const std::vector<pid_t> children = children_of(keeper());
  return children.empty() ? -1 : children.front();
}

pid_t Node::next_server(pid_t before) const {
  pid_t now = -1;
  (void)becomes_true([&] {
    now = server();
    return now > 0 && now != before;
  });
  return now;
}

void Node::kill_everything() {
  const pid_t last = server();
  send_signal(keeper(), SIGKILL);
  send_signal(last, SIGKILL);
  (void)process_.wait();
  (void)becomes_true([last] { return last <= 0 || has_ended(last); });
}

int Node::stop() {
  process_.signal(SIGTERM);
  return process_.wait();
}

std::string Node::tcp_address() const {
  static constexpr std::string_view kLine = "\n  tcp      ";
  const std::string text = output();
  const size_t start = text.find(kLine);
  if (start == std::string::npos) return {};
  const size_t begin = start + kLine.size();
  return text.substr(begin, text.find(' ', begin) - begin);
}

Client Node::connect(const ClientOptions& options) const {
  return connect_to(socket_path_, options);
}

Client Node::connect_tcp(const ClientOptions& options) const {
  return connect_to("tcp:" + tcp_address(), options);
}

Client Node::connect_to(const std::string& address, const ClientOptions& options) const {
  auto client = Client::connect(address, options);
  // Its server may have been killed by a test, and hang up over TCP.
  (void)becomes_true([&] {
    if (client || client.error().code != Code::kUnavailable) return true;
    client = Client::connect(address, options);
    return client.has_value();
  });
  if (client) return std::move(*client);
  std::fprintf(stderr, "no client: %s\nthe node said:\n%s\n", client.error().to_string().c_str(),
               errors().c_str());
  std::abort();
}

}  // namespace refract::test
