// SPDX-License-Identifier: Apache-2.0
// Three nodes that share their objects, clients of them, and ids by their home.
//
// Threads: one; clients and ids may be asked for by any number once the nodes are up.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/cluster/node_set.h"
#include "tests/objects/object_node.h"

#include "refract/client/objects.h"
#include "refract/client/objects_c.h"
#include "refract/cluster/routing.h"

namespace refract::test {

// In a file that only its user can read. Returns its path.
[[nodiscard]] std::string write_secret(const TemporaryFolder& folder, const std::string& name,
                                       std::string_view text);

// Nodes a, b and c.
class SharedNodes {
 public:
  static constexpr size_t kNodes = 3;
  static constexpr std::string_view kSecret = "what the nodes of this test know";

  // Further flags of each. Waits until all are up and have the list with their addresses, version 2; fails
  // the test and ends it where one does not come.
  explicit SharedNodes(std::vector<std::string> further = {});

  [[nodiscard]] NodeSet& set() noexcept { return set_; }
  [[nodiscard]] Node& node(size_t index) noexcept { return set_.node(index); }
  [[nodiscard]] std::string secret_path() const { return folder_.path() + "/secret"; }

  [[nodiscard]] ObjectClient open(size_t index, bool is_tcp = false, uint64_t timeout_ns = kPatience_ns);
  // Waits until each of these nodes says of an id of each of them as its home that there is no such object:
  // so each has heard from all. Empty: so it is. Else what one said.
  [[nodiscard]] std::string trouble_to_agree(const std::vector<size_t>& nodes = {0, 1, 2});

  // Waits until each node's accounts are so: by default, until it has nothing left, no object, no copy, no
  // creation and no holder. Empty: they are. Else what one has.
  [[nodiscard]] std::string left_over(const std::function<bool(const ObjectStat&)>& is_good = is_empty);
  [[nodiscard]] static bool is_empty(const ObjectStat& stat);

  // The node that decides about an id, under the list of all three.
  [[nodiscard]] size_t home_of(std::string_view id) const;
  // An id that begins so, and has this home.
  [[nodiscard]] std::string id_at(size_t home, const std::string& begin) const;

 private:
  TemporaryFolder folder_;
  NodeSet set_;
  cluster::Routing routing_;
};

// Tests of nodes that have agreed.
class AgreedNodes : public testing::Test {
 protected:
  static constexpr size_t kA = 0;
  static constexpr size_t kB = 1;
  static constexpr size_t kC = 2;
  static constexpr uint64_t kPatience_ms = 60'000;

  void SetUp() override { ASSERT_EQ(nodes_.trouble_to_agree(), ""); }
  // As programs in C have it. Null: the test has failed.
  [[nodiscard]] refract_objects* open_in_c(size_t index);

  SharedNodes nodes_;
};

// Waits until a get of the id is answered so. Returns the last answer.
[[nodiscard]] Code code_when(Objects& objects, const std::string& id, Code wanted);

}  // namespace refract::test
