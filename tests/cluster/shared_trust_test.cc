// SPDX-License-Identifier: Apache-2.0
// Which nodes share their objects: those that know the cluster's secret, and no client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cluster/shared_nodes.h"

#include "refract/base/clock.h"
#include "refract/base/testing/needed.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/tcp/domain.h"
#include "refract/object/directory/directory_wire.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"

namespace refract::test {
namespace {

using fabric::tcp::Role;
using fabric::tcp::Secret;
using object::wire::DirectoryMethod;
using testing::HasSubstr;

constexpr std::string_view kClientSecret = "what the clients of this test know";
constexpr DirectoryMethod kMethods[] = {
    DirectoryMethod::kHello, DirectoryMethod::kChanges, DirectoryMethod::kLookUp, DirectoryMethod::kRemove,
    DirectoryMethod::kDrop,  DirectoryMethod::kForget,  DirectoryMethod::kAsk,    DirectoryMethod::kAppeared};

// One session to a node's shard of objects, which is the one behind that of keys.
class Outsider {
 public:
  Outsider(const Node& node, Role role, std::string_view secret)
      : secret_(needed(Secret::copy_of(std::as_bytes(std::span(secret))))),
        domain_(needed(
            fabric::tcp::ClientDomain::create({.secret = &secret_, .role = role, .reconnect_for_ns = 0}))),
        dispatcher_(*domain_, shard_),
        channel_(domain_->connect(node.tcp_address() + "/1")),
        session_(**channel_, shard_) {}

  // Whether it was let in.
  [[nodiscard]] bool is_let_in() { return call(DirectoryMethod::kHello, "") != Code::kUnavailable; }
  [[nodiscard]] Code call(DirectoryMethod method, std::string_view body) {
    return session_
        .call_and_wait({.method = static_cast<uint16_t>(method), .head = std::as_bytes(std::span(body))},
                       shard_.refresh_now() + 5'000'000'000)
        .code;
  }
  [[nodiscard]] std::string refusal() const { return domain_->last_refusal().to_string(); }

 private:
  runtime::Shard shard_{system_clock()};
  Secret secret_;
  std::unique_ptr<fabric::tcp::ClientDomain> domain_;
  fabric::Dispatcher dispatcher_;
  decltype(std::declval<fabric::tcp::ClientDomain&>().connect("")) channel_;
  rpc::Session session_;
};

class SharedWithClients : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(nodes_.trouble_to_agree(), ""); }

  TemporaryFolder folder_;
  SharedNodes nodes_{{"--auth-secret-file", write_secret(folder_, "clients", kClientSecret)}};
};

// What a client might send to claim, publish, withdraw, delete or drop; of any length.
TEST_F(SharedWithClients, no_client_may_call_what_nodes_ask_of_each_other) {
  ObjectClient a = nodes_.open(0);
  const std::string id = nodes_.id_at(0, "kept");
  ASSERT_TRUE(put_sealed(a.objects, id, 1, 1'000));
  Outsider client(nodes_.node(0), Role::kClient, kClientSecret);
  ASSERT_TRUE(client.is_let_in()) << client.refusal();
  for (const DirectoryMethod method : kMethods) {
    for (const size_t bytes : {size_t{0}, size_t{24}, size_t{40}, size_t{1'000}}) {
      EXPECT_EQ(client.call(method, std::string(bytes, '\1')), Code::kAccessDenied)
          << static_cast<int>(method) << " of " << bytes << " bytes";
    }
  }
  EXPECT_TRUE(nodes_.open(1).objects.get(id));
}

TEST_F(SharedWithClients, the_secret_of_clients_makes_no_node) {
  Outsider with_wrong(nodes_.node(0), Role::kNode, kClientSecret);
  EXPECT_FALSE(with_wrong.is_let_in());
  EXPECT_THAT(with_wrong.refusal(), HasSubstr("cluster secret is not this node's"));
  // With the right one it is, and has to say which node it is before all else.
  Outsider with_right(nodes_.node(0), Role::kNode, SharedNodes::kSecret);
  EXPECT_TRUE(with_right.is_let_in()) << with_right.refusal();
  EXPECT_NE(with_right.call(DirectoryMethod::kChanges, std::string(24, '\1')), Code::kOk);
}

class SharedWithStrangers : public testing::Test {
 protected:
  [[nodiscard]] Node further_node(const std::string& name, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(),
                     {"--cluster-nodes", "file:" + nodes_.set().list_path(), "--cluster-self", name,
                      "--listen-address", "127.0.0.1:0", "--objects-limit", "64MiB"});
    return Node({.arguments = std::move(arguments)});
  }

  TemporaryFolder folder_;
  SharedNodes nodes_;
};

TEST_F(SharedWithStrangers, a_node_with_another_secret_gets_nothing_and_is_told_why) {
  NodeSet& set = nodes_.set();
  ASSERT_EQ(nodes_.trouble_to_agree(), "");
  set.write_list(set.true_list(3, "d = 192.0.2.1:1\n"));
  Node stranger = further_node(
      "d",
      {"--cluster-secret-file", write_secret(folder_, "other", "what the nodes of another cluster know")});
  ASSERT_TRUE(stranger.is_up()) << stranger.errors();
  ObjectClient a = nodes_.open(0);
  ObjectClient d = open_objects(stranger);
  // An id that needs no home, since the list with d is not all that these three agree upon.
  const auto id = a.objects.new_id();
  ASSERT_TRUE(id);
  ASSERT_TRUE(put_sealed(a.objects, *id, 1, 1'000)) << a.objects.trouble().to_string();
  set.write_list(set.true_list(4, "d = " + stranger.tcp_address() + "\n"));
  set.hang_up();
  stranger.process().signal(SIGHUP);
  EXPECT_EQ(told_when(d.client, 4).substr(0, 2), "4 ");
  EXPECT_EQ(told_when(a.client, 4).substr(0, 2), "4 ");
  const auto logged = [](const Node& node) {
    return becomes_true(
        [&] { return node.errors().find("cluster secret is not this node's") != std::string::npos; });
  };
  EXPECT_TRUE(logged(stranger)) << stranger.errors();
  EXPECT_TRUE(logged(nodes_.node(0))) << nodes_.node(0).errors();
  EXPECT_EQ(d.objects.get(*id).code(), Code::kAway);
  EXPECT_THAT(d.objects.trouble().to_string(), HasSubstr("nodes a, b and c cannot be reached"));
  EXPECT_TRUE(a.objects.get(*id));
}

TEST_F(SharedWithStrangers, without_a_secret_objects_stay_on_their_node_and_the_banner_says_so) {
  EXPECT_THAT(nodes_.node(0).output(),
              HasSubstr("sharing  objects, with the nodes that know the secret in " + nodes_.secret_path()));
  nodes_.set().write_list(nodes_.set().true_list(3, "d = 192.0.2.1:1\n"));
  Node alone = further_node("d", {});
  ASSERT_TRUE(alone.is_up()) << alone.errors();
  EXPECT_THAT(alone.output(), HasSubstr("sharing  no: objects stay on this node (--cluster-secret-file"));
  ObjectClient d = open_objects(alone);
  ASSERT_TRUE(put_sealed(d.objects, "own", 1, 1'000));
  EXPECT_TRUE(d.objects.get("own"));
  EXPECT_EQ(d.objects.get("another's").code(), Code::kNotFound);
  EXPECT_EQ(d.objects.where("own").code(), Code::kUnsupported);
  EXPECT_TRUE(d.objects.remove("own"));
}

}  // namespace
}  // namespace refract::test
