// SPDX-License-Identifier: Apache-2.0
#include "bench/bars/durable_node.h"

#include <fmt/core.h>

#include <filesystem>

#include "bench/bars/loaded_node.h"
#include "bench/load/entry.h"
#include "bench/measure/measure.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

constexpr uint64_t kPatience_ns = 120 * kSecond_ns;

// The command beside this program.
std::string command_program() {
  return std::filesystem::path(default_node_program()).replace_filename("refract").string();
}

}  // namespace

Reported<DurableNode> DurableNode::start(const BarRun& run, const Options& options) {
  Reported<test::TemporaryFolder> folder = test::TemporaryFolder::make();
  if (!folder) return report(folder.error());
  DurableNode durable(std::move(*folder), {.program = run.options.node_program,
                                           .memory_limit_bytes = node_memory_bytes(options.entries),
                                           .is_bound = options.is_bound,
                                           .durability = "everysec",
                                           .snapshots_at_full_speed = options.snapshots_at_full_speed});
  durable.options_.data_folder = durable.folder();
  Reported<PrivateNode> node = PrivateNode::start(durable.options_);
  if (!node) return report(node.error());
  durable.node_.emplace(std::move(*node));
  return durable;
}

Reported<DurableNode> DurableNode::start_loaded(const BarRun& run, const Options& options) {
  Reported<DurableNode> durable = start(run, options);
  if (!durable) return durable;
  Reported<Client> loader = connect_to(durable->node());
  if (!loader) return report(loader.error());
  if (const Reported<> loaded = load_entries(*loader, options.entries); !loaded)
    return report(loaded.error());
  return durable;
}

void DurableNode::stop() {
  if (node_) node_->stop();
  node_.reset();
}

Reported<double> DurableNode::start_again(uint64_t index) {
  const Key key = Key::of(index);
  const Value value = Value::of(index);
  return start_again(key.text(), value.text());
}

Reported<double> DurableNode::start_again(std::string_view key, std::string_view value) {
  const uint64_t begun_ns = now_ns();
  Reported<PrivateNode> node = PrivateNode::start(options_);
  if (!node) return report(node.error());
  node_.emplace(std::move(*node));
  while (true) {
    Reported<Client> client = Client::connect(node_->socket_path());
    const Result<std::string> got = client ? client->get(key) : fail(client.error().code);
    if (got && *got == value) return static_cast<double>(now_ns() - begun_ns) * 1e-9;
    if (got || got.code() == Code::kNotFound) {
      return report(Code::kCorrupt, "an entry is not what it was before the start");
    }
    if (now_ns() - begun_ns > kPatience_ns) return failed("get behind a start", got.code());
    sleep_ns(kMillisecond_ns);
  }
}

Reported<test::Process> DurableNode::begin_snapshot() const {
  return start_beside(
      {.arguments = {command_program(), "--socket", node_->socket_path(), "snapshot", "--no-progress"},
       .output_path = folder_.path() + "/snapshot.log"});
}

Reported<> DurableNode::end_snapshot(test::Process& snapshot) const {
  if (snapshot.wait_for_end() == 0) return {};
  return report(Code::kUnavailable,
                "refract snapshot failed: " + test::tail_of(folder_.path() + "/snapshot.log"));
}

Reported<double> DurableNode::snapshot_seconds() const {
  const uint64_t begun_ns = now_ns();
  Reported<test::Process> snapshot = begin_snapshot();
  if (!snapshot) return report(snapshot.error());
  if (const Reported<> ended = end_snapshot(*snapshot); !ended) return report(ended.error());
  return static_cast<double>(now_ns() - begun_ns) * 1e-9;
}

std::string DurableNode::snapshot_path() const {
  std::string youngest;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder(), error)) {
    const std::string path = file.path();
    if (file.path().filename().string().starts_with("snapshot-") && path > youngest) youngest = path;
  }
  return youngest;
}

}  // namespace refract::bench
