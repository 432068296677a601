// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/shared_nodes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <span>
#include <utility>

#include "refract/cluster/member_list.h"

namespace refract::test {
namespace {

std::vector<std::string> arguments_with(std::vector<std::string> further, const std::string& secret_path) {
  further.insert(further.end(), {"--objects-limit", "256MiB", "--cluster-secret-file", secret_path});
  return further;
}

// Homes follow from names alone.
cluster::MemberList names_only() {
  return {.version = 1, .members = {{"a", "host", 1}, {"b", "host", 2}, {"c", "host", 3}}};
}

}  // namespace

std::string write_secret(const TemporaryFolder& folder, const std::string& name, std::string_view text) {
  const std::string path = folder.path() + "/" + name;
  EXPECT_TRUE(write_whole(path, std::string(text)));
  EXPECT_EQ(::chmod(path.c_str(), 0600), 0);
  return path;
}

SharedNodes::SharedNodes(std::vector<std::string> further)
    : set_({"a", "b", "c"},
           {.arguments = arguments_with(std::move(further), write_secret(folder_, "secret", kSecret))}),
      routing_(names_only()) {
  for (size_t i = 0; i < kNodes; ++i) {
    if (node(i).is_up()) continue;
    ADD_FAILURE() << node(i).errors();
    std::exit(EXIT_FAILURE);
  }
  set_.write_list(set_.true_list(2));
  set_.hang_up();
}

ObjectClient SharedNodes::open(size_t index, bool is_tcp, uint64_t timeout_ns) {
  return open_objects(node(index), {.is_tcp = is_tcp}, {.timeout_ns = timeout_ns});
}

std::string SharedNodes::trouble_to_agree(const std::vector<size_t>& nodes) {
  for (const size_t asked : nodes) {
    ObjectClient opened = open(asked);
    for (const size_t home : nodes) {
      const Code code = code_when(opened.objects, id_at(home, "nothing"), Code::kNotFound);
      if (code == Code::kNotFound) continue;
      return fmt::format("node {} answers {} of an id of {}: {}\n{}", set_.name(asked), text(code),
                         set_.name(home), opened.objects.trouble().to_string(), node(asked).errors());
    }
  }
  return {};
}

bool SharedNodes::is_empty(const ObjectStat& stat) {
  return stat.used == 0 && stat.objects == 0 && stat.creations == 0 && stat.removed == 0 && stat.held == 0;
}

std::string SharedNodes::left_over(const std::function<bool(const ObjectStat&)>& is_good) {
  for (size_t i = 0; i < kNodes; ++i) {
    ObjectClient opened = open(i);
    ObjectStat stat;
    const bool becomes_good = becomes_true([&] {
      const auto now = opened.objects.stat();
      if (now) stat = *now;
      return now && is_good(stat);
    });
    if (becomes_good) continue;
    return fmt::format("node {} has {} bytes of {} objects, {} creations, {} removed and {} held ones",
                       set_.name(i), stat.used, stat.objects, stat.creations, stat.removed, stat.held);
  }
  return {};
}

size_t SharedNodes::home_of(std::string_view id) const {
  uint8_t home = 0;
  (void)routing_.nodes_of(cluster::slot_of(id), std::span(&home, 1));
  return home;
}

std::string SharedNodes::id_at(size_t home, const std::string& begin) const {
  for (uint64_t i = 0;; ++i) {
    std::string id = fmt::format("{}-{}", begin, i);
    if (home_of(id) == home) return id;
  }
}

refract_objects* AgreedNodes::open_in_c(size_t index) {
  refract_objects* objects = nullptr;
  std::array<char, REFRACT_WHY_BYTES> why{};
  const std::string& path = nodes_.node(index).socket_path();
  EXPECT_EQ(refract_objects_open(path.c_str(), nullptr, &objects, why.data(), why.size()), REFRACT_OK)
      << why.data();
  return objects;
}

Code code_when(Objects& objects, const std::string& id, Code wanted) {
  Code code = Code::kOk;
  (void)becomes_true([&] {
    code = objects.get(id).code();
    return code == wanted;
  });
  return code;
}

}  // namespace refract::test
