// SPDX-License-Identifier: Apache-2.0
// A task holds a session while it is in it: one that closes is let go behind the last task.
//
// Threads: only the shard that owns the objects.
#pragma once

#include "refract/object/directory/directory_state.h"

namespace refract::object {

class Directory::State::Use {
 public:
  Use(State& state, rpc::Session& session) : state_(state), session_(session) {
    ++state_.uses[&session_].first;
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() { state_.end_use(session_); }

 private:
  State& state_;
  rpc::Session& session_;
};

}  // namespace refract::object
