// SPDX-License-Identifier: Apache-2.0
// A client of a campaign: one session, one direct reader, and a stream of operations on ids that all share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/objects/births.h"
#include "tests/objects/holder.h"
#include "tests/objects/object_stage.h"

#include "refract/base/prng.h"
#include "refract/fabric/channel.h"
#include "refract/fabric/sim/world.h"
#include "refract/kv/calls/lender.h"
#include "refract/object/calls/object_calls.h"
#include "refract/rpc/session.h"
#include "refract/runtime/task.h"

namespace refract::campaign {

// Lives in its host (Host::emplace), whose dispatcher stands before it.
class ObjectWorker {
 public:
  struct Options {
    double stall_chance = 0;
    int operations = 0;
    bool is_far = false;      // Its messages take long: it does what others may come in between of.
    bool lends = true;        // Else it writes what it makes through windows.
    bool is_doubled = false;  // Its domain sends calls twice.
  };
  // `domain`: of the host, or round it.
  ObjectWorker(ObjectStage& stage, sim::Host& host, fabric::Domain& domain, const Options& options);

  // The whole life of a worker.
  [[nodiscard]] runtime::Task<> work();
  // Once all workers have ended: looks at all ids on all ways, and deletes what there is.
  [[nodiscard]] runtime::Task<> clear();

 private:
  // Memory of a creator's.
  struct Filled {
    std::string id;
    BirthFacts facts;
    std::vector<std::byte> bytes;
    object::Making making;
    uint64_t crashes = 0;
  };

  [[nodiscard]] runtime::Task<> step();
  [[nodiscard]] runtime::Task<bool> connect();
  [[nodiscard]] runtime::Task<> disconnect();

  [[nodiscard]] std::string any_id();
  // As far as a look says so; else any.
  [[nodiscard]] std::string id_that_is(bool there);
  [[nodiscard]] std::unique_ptr<Filled> draw_object(uint64_t body_bytes_max);
  [[nodiscard]] uint64_t any_large();
  // Whether a call may be tried again, over another session: it was not answered.
  [[nodiscard]] bool is_unanswered(Code code) const noexcept;
  void note_refusal(Code code, const char* what);
  [[nodiscard]] runtime::Task<> refused(Filled& filled);

  [[nodiscard]] runtime::Task<> make();
  [[nodiscard]] runtime::Task<Code> create(Filled& filled);
  [[nodiscard]] runtime::Task<Code> seal(Filled& filled);
  [[nodiscard]] runtime::Task<Code> end(Filled& filled);
  [[nodiscard]] runtime::Task<> abort(Filled& filled);
  [[nodiscard]] runtime::Task<> put();
  [[nodiscard]] runtime::Task<> remove(std::string id);
  [[nodiscard]] runtime::Task<> keep();
  [[nodiscard]] runtime::Task<> evict();

  [[nodiscard]] runtime::Task<> fetch(std::string id);
  [[nodiscard]] runtime::Task<> await(std::string id);
  [[nodiscard]] runtime::Task<> list();

  ObjectStage& stage_;
  sim::Host& host_;
  fabric::Domain& domain_;
  Options options_;
  Prng prng_;
  Holder holder_;
  kv::Lender lender_;
  std::unique_ptr<rpc::Session> session_;
  std::unique_ptr<object::ObjectCalls> calls_;
};

}  // namespace refract::campaign
