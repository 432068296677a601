// SPDX-License-Identifier: Apache-2.0
#include "bench/bars/object_node.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "bench/bars/loaded_node.h"
#include "bench/measure/tcp_socket.h"

#include "refract/base/units.h"
#include "refract/memory/host/descriptor.h"

namespace refract::bench {
namespace {

constexpr uint64_t kGrace_ns = 150 * kMillisecond_ns;  // So long a copy stays, whatever lacks room.

std::string name_of(size_t node) {
  return {static_cast<char>('a' + node)};
}

constexpr std::byte byte_of(uint64_t number, uint64_t at) noexcept {
  return static_cast<std::byte>(number * 37 + at * 131 + at / 4096);
}

}  // namespace

Reported<ObjectNode> start_object_node(const BarRun& run, uint64_t entries, uint64_t objects_limit_bytes) {
  Reported<PrivateNode> node = PrivateNode::start({.program = run.options.node_program,
                                                   .memory_limit_bytes = node_memory_bytes(entries),
                                                   .objects_limit_bytes = objects_limit_bytes});
  if (!node) return report(node.error());
  Reported<Client> client = connect_to(*node);
  if (!client) return report(client.error());
  Reported<Objects> objects = client->objects();
  if (!objects) return report(objects.error());
  return ObjectNode{*std::move(node), *std::move(client), *objects};
}

Reported<ListedNodes> start_listed_nodes(const BarRun& run, size_t count, uint64_t objects_limit_bytes,
                                         const DelayedPath* path) {
  const auto address_of = [path](size_t node) -> std::string {
    if (path == nullptr) return "127.0.0.1";
    return node == 0 ? path->near_address() : path->far_address();
  };
  Reported<test::TemporaryFolder> folder = test::TemporaryFolder::make();
  if (!folder) return report(folder.error());
  ListedNodes listed{.folder = std::move(*folder), .nodes = {}};
  const std::string secret = listed.folder.path() + "/secret";
  if (const Reported<> written = write_node_secret(secret, "what the nodes of a benchmark know\n"); !written)
    return report(written.error());
  std::vector<uint16_t> ports;
  std::string list = "version=1";
  for (size_t i = 0; i < count; ++i) {
    const Reported<uint16_t> port = free_port();
    if (!port) return report(port.error());
    ports.push_back(*port);
    list += fmt::format(",{}={}:{}", name_of(i), address_of(i), *port);
  }
  for (size_t i = 0; i < count; ++i) {
    Reported<PrivateNode> node = PrivateNode::start(
        {.program = run.options.node_program,
         .memory_limit_bytes = node_memory_bytes(1000),
         .is_bound = false,
         .listen_address = address_of(i),
         .objects_limit_bytes = objects_limit_bytes,
         .listen_port = ports[i],
         .further = {"--cluster-nodes", list, "--cluster-self", name_of(i), "--cluster-secret-file", secret},
         .launcher = path == nullptr || i == 0 ? std::vector<std::string>() : path->launcher()});
    if (!node) return report(node.error());
    Reported<Client> client = connect_to(*node);
    if (!client) return report(client.error());
    Reported<Objects> objects = client->objects();
    if (!objects) return report(objects.error());
    listed.nodes.push_back({*std::move(node), *std::move(client), *objects});
  }
  return listed;
}

Reported<> put_listed(Objects& objects, uint64_t number, std::span<const std::byte> body) {
  constexpr int kAttempts = 3000;
  Code code = Code::kAway;
  for (int attempt = 0; attempt < kAttempts && code == Code::kAway; ++attempt) {
    if (attempt > 0) sleep_ns(10 * kMillisecond_ns);
    code = objects.put(object_id(number), Bytes(body)).code();
  }
  if (code != Code::kOk) return failed("put of an object", code);
  return {};
}

Reported<double> seconds_of_broadcast(Objects& objects, uint64_t number) {
  const uint64_t start_ns = now_ns();
  const Result<ObjectBroadcast> told = objects.broadcast(object_id(number));
  const double seconds = static_cast<double>(now_ns() - start_ns) / 1e9;
  if (!told) return failed("broadcast", told.code());
  for (const BroadcastNode& node : told->nodes) {
    if (node.code != Code::kOk) return failed("broadcast to " + node.node, node.code);
  }
  return seconds;
}

Reported<double> seconds_of_pull(Objects& objects, uint64_t number) {
  const std::string id = object_id(number);
  const Bytes bytes(id);
  const uint64_t start_ns = now_ns();
  const Code code = objects.prefetch({&bytes, 1}).front();
  const double seconds = static_cast<double>(now_ns() - start_ns) / 1e9;
  if (code != Code::kOk) return failed("prefetch", code);
  return seconds;
}

Reported<> await_others(Objects& objects, uint64_t number) {
  constexpr int kAttempts = 3000;
  const std::byte body{};
  if (const Reported<> made = put_listed(objects, number, {&body, 1}); !made) return made;
  for (int attempt = 0;; ++attempt) {
    const Reported<double> seconds = seconds_of_broadcast(objects, number);
    if (seconds) return {};
    if (attempt == kAttempts) return report(seconds.error());
    sleep_ns(10 * kMillisecond_ns);
  }
}

std::string object_id(uint64_t number) {
  return fmt::format("object-{}", number);
}

void fill_body(std::span<std::byte> body, uint64_t number) {
  for (size_t i = 0; i < body.size(); ++i) body[i] = byte_of(number, i);
}

Reported<> check_object(Objects& objects, uint64_t number, Bytes body) {
  const Result<Object> object = objects.get(object_id(number));
  if (!object) return failed("get of an object", object.code());
  const std::span<const std::byte> found = object->body();
  if (found.size() != body.size() || std::memcmp(found.data(), body.data(), body.size()) != 0)
    return report(Code::kCorrupt, "an object is not what was put");
  return {};
}

Reported<> forget_copies(Objects& objects) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const auto gone = objects.evict(UINT64_MAX);
    if (!gone) return failed("evict", gone.code());
    const auto stat = objects.stat();
    if (!stat) return failed("stat", stat.code());
    if (stat->used == 0) return {};
    sleep_ns(kGrace_ns / 4);
  }
  return report(Code::kInUse, "copies stay where nothing holds them");
}

Reported<> write_node_secret(const std::string& path, std::string_view secret) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file && ::write(file.get(), secret.data(), secret.size()) == std::ssize(secret)) return {};
  return report(Code::kSystem, fmt::format("cannot write {}", path));
}

Reported<> remove_objects(Objects& objects, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    if (const auto removed = objects.remove(object_id(i)); !removed)
      return failed("removal of an object", removed.code());
  }
  return {};
}

}  // namespace refract::bench
