// SPDX-License-Identifier: Apache-2.0
// doctor: how this machine is, or the path to a node elsewhere.
#include "refract/node/doctor/doctor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/progress/progress.h"
#include "apps/refract/commands.h"
#include "apps/refract/terminal.h"

#include "refract/node/config/config.h"
#include "refract/node/doctor/doctor_data.h"
#include "refract/node/doctor/doctor_paths.h"
#include "refract/node/doctor/doctor_peer.h"

namespace refract::cli {
namespace {

// What is being tried, in a line of the standard error that is redrawn, and gone in the end. Where it is no
// terminal, nothing: it is a matter of seconds.
class Doing {
 public:
  explicit Doing(bool is_silent) : style_(progress::style_of(STDERR_FILENO)) {
    if (is_silent) style_.terminal = false;
  }
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;
  ~Doing() { draw({}); }

  void draw(std::string_view text) {
    if (style_.terminal) write_(fmt::format("\r\x1b[K{}", text.substr(0, style_.columns - 1)));
  }

 private:
  progress::Style style_;
  std::function<void(std::string_view)> write_ = progress::write_to_descriptor(STDERR_FILENO);
};

Reported<node::LoadedConfig> config_of(const Invocation& invocation) {
  std::vector<std::string> words = {"refractd"};
  words.insert(words.end(), invocation.node_flags.begin(), invocation.node_flags.end());
  if (!invocation.socket.empty()) words.insert(words.end(), {"--socket-path", invocation.socket});
  if (!invocation.rdma_device.empty()) words.insert(words.end(), {"--rdma-device", invocation.rdma_device});
  std::vector<const char*> arguments;
  arguments.reserve(words.size());
  for (const std::string& word : words) arguments.push_back(word.c_str());
  return node::load_config(static_cast<int>(arguments.size()), arguments.data(), environ);
}

int print(const Invocation& invocation, std::span<const node::Finding> findings, int code) {
  const int written =
      write_text(invocation.json ? node::findings_json(findings) + "\n" : node::findings_table(findings));
  return written != kDone ? written : code;
}

std::vector<node::Finding> tried(const Invocation& invocation) {
  Doing doing(invocation.no_progress);
  const uint64_t total = node::self_test_figures();
  uint64_t count = 0;
  std::string path;
  const auto draw = [&] { doing.draw(fmt::format("self-test {} of {}: {}", count + 1, total, path)); };
  node::SelfTestOptions options;
  options.on_path = [&](std::string_view begun) {
    path = begun;
    draw();
  };
  options.meter.on_figure = [&] {
    ++count;
    draw();
  };
  return node::self_test(options);
}

int examine_path(const Invocation& invocation) {
  std::vector<node::Finding> findings;
  {
    Doing doing(invocation.no_progress);
    findings = node::examine_peer({.place = invocation.peer,
                                   .options = {.timeout_ns = invocation.timeout_ns,
                                               .secret_file = invocation.secret_file,
                                               .rdma_device = invocation.rdma_device},
                                   .takes_figures = !invocation.no_self_test,
                                   .on_step = [&doing](std::string_view step) { doing.draw(step); }});
  }
  return print(invocation, findings, node::findings_exit_code(findings) == 0 ? kDone : kUnreachable);
}

}  // namespace

int run_doctor(const Invocation& invocation) {
  if (!invocation.peer.empty()) return examine_path(invocation);
  const auto loaded = config_of(invocation);
  if (!loaded) return complain(loaded.error());
  const node::DoctorInputs inputs = node::doctor_inputs(loaded->config);
  std::vector<node::Finding> findings = node::examine(inputs);
  if (!invocation.no_self_test) {
    for (node::Finding& finding : node::measure_data(inputs)) findings.push_back(std::move(finding));
    for (node::Finding& finding : tried(invocation)) findings.push_back(std::move(finding));
  }
  findings.push_back(node::verdict(inputs, findings));
  return print(invocation, findings, node::findings_exit_code(findings));
}

}  // namespace refract::cli
