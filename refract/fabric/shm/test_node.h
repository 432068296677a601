// SPDX-License-Identifier: Apache-2.0
// A node without a keeper process, for this folder's tests: a Meeting, and a ServerDomain that adopts from
// it.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "refract/base/testing/processes/files.h"
#include "refract/fabric/shm/domain.h"
#include "refract/fabric/shm/meeting.h"

namespace refract::fabric::shm {

class MeetingFolder : public test::TemporaryFolder {
 public:
  [[nodiscard]] std::string socket() const { return path() + "/node.sock"; }
};

class TestNode {
 public:
  explicit TestNode(MeetingOptions options = {}, const LoanLimits& loans = {}, CopyTeam* copies = nullptr)
      : loans_(loans), copies_(copies) {
    options.path = directory_.socket();
    options.space_bytes_max = kGiB;  // Each connection reserves it; sanitizers leave few addresses.
    options.on_attach = [this](const Attachment& attachment) {
      if (!server_) return;
      EXPECT_TRUE(server_->adopt(attachment).has_value());
    };
    options.on_detach = [this](uint64_t id) {
      if (server_) server_->drop(id);
    };
    auto opened = Meeting::open(std::move(options));
    EXPECT_TRUE(opened.has_value()) << opened.error().to_string();
    meeting_ = std::move(*opened);
    start_server();
  }

  // What a keeper does after a fork: the new server adopts all clients.
  void start_server() {
    meeting_->begin_incarnation();
    auto made =
        ServerDomain::create({.node_page = &meeting_->node_page(), .loans = loans_, .copies = copies_});
    EXPECT_TRUE(made.has_value());
    server_ = std::move(*made);
    for (const Attachment& attachment : meeting_->attachments()) {
      EXPECT_TRUE(server_->adopt(attachment).has_value());
    }
    meeting_->set_server_state(ServerState::kServing);
  }
  // As kill -9 ends a server: its mappings go, and only the keeper is told.
  void kill_server() {
    server_.reset();
    meeting_->set_server_state(ServerState::kRestarting);
  }
  void end_keeper() { meeting_.reset(); }

  [[nodiscard]] Meeting& meeting() { return *meeting_; }
  [[nodiscard]] bool has_keeper() const { return meeting_ != nullptr; }
  [[nodiscard]] bool has_server() const { return server_ != nullptr; }
  [[nodiscard]] ServerDomain& server() { return *server_; }
  [[nodiscard]] std::string path() const { return directory_.socket(); }

 private:
  LoanLimits loans_;
  CopyTeam* copies_;
  MeetingFolder directory_;
  std::unique_ptr<Meeting> meeting_;
  std::unique_ptr<ServerDomain> server_;
};

inline std::unique_ptr<ClientDomain> make_client() {
  auto made = ClientDomain::create();
  EXPECT_TRUE(made.has_value());
  return std::move(*made);
}

}  // namespace refract::fabric::shm
