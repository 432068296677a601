// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/node_set.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

namespace refract::test {

NodeSet::NodeSet(std::vector<std::string> names, const Options& options)
    : options_(options), names_(std::move(names)) {
  std::string list = "version = 1\n";
  for (size_t i = 0; i < names_.size(); ++i) list += fmt::format("{} = 192.0.2.1:{}\n", names_[i], i + 1);
  write_list(options.list.empty() ? list : options.list);
  for (const std::string& name : names_) nodes_.push_back(started(name, "127.0.0.1:0"));
}

std::unique_ptr<Node> NodeSet::started(const std::string& name, const std::string& address) const {
  std::vector<std::string> arguments = {"--cluster-nodes",   "file:" + list_path_,
                                        "--cluster-self",    name,
                                        "--listen-address",  address,
                                        "--restart-limit",   "1000",
                                        "--restart-backoff", "0ns"};
  for (std::string argument : options_.arguments) {
    const size_t at = argument.find(kName);
    if (at != std::string::npos) argument.replace(at, kName.size(), name);
    arguments.push_back(std::move(argument));
  }
  return std::make_unique<Node>(NodeOptions{.arguments = std::move(arguments), .program = options_.program});
}

void NodeSet::start_again(size_t index) {
  nodes_[index] = started(names_[index], nodes_[index]->tcp_address());
}

std::string NodeSet::true_list(uint64_t version, const std::string& further) const {
  std::string list = fmt::format("version = {}\n", version);
  for (size_t i = 0; i < names_.size(); ++i) {
    list += fmt::format("{} = {}\n", names_[i], nodes_[i]->tcp_address());
  }
  return list + further;
}

void NodeSet::write_list(const std::string& text) const {
  const std::string next = list_path_ + ".next";
  std::ofstream(next, std::ios::binary) << text;
  std::filesystem::rename(next, list_path_);
}

void NodeSet::hang_up() {
  for (const auto& node : nodes_) node->process().signal(SIGHUP);
}

// A node's log says so before its server knows.
void NodeSet::move_to(const std::string& list, uint64_t version) {
  write_list(list);
  hang_up();
  for (const auto& node : nodes_) {
    if (node->server() < 0) continue;
    Client client = node->connect();
    const std::string told = told_when(client, version);
    EXPECT_TRUE(told.starts_with(std::to_string(version) + " ")) << told << "\n" << node->errors();
  }
}

std::string told_by(Client& client) {
  const auto told = client.members();
  if (!told) return std::string(info(told.code()).text);
  std::string text = std::to_string(told->version);
  for (size_t i = 0; i < told->members.size(); ++i) {
    const ClusterMember& member = told->members[i];
    text += fmt::format(" {}{}={}", i == told->self ? "*" : "", member.name, member.address);
  }
  return text;
}

std::string told_when(Client& client, uint64_t version) {
  std::string told;
  const std::string wanted = std::to_string(version) + " ";
  (void)becomes_true([&] {
    told = told_by(client);
    return told.starts_with(wanted);
  });
  return told;
}

}  // namespace refract::test
