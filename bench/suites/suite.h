// SPDX-License-Identifier: Apache-2.0
// A suite rebuilds a published experiment and puts our figures beside the paper's.
//
// It is a TOML file (bench/suites/): the testbed as parameters, each with its source, the systems, the load,
// and the paper's figures. On the simulated fabric the same code that serves for real runs in virtual time,
// on hosts with the testbed's ports, delays and cores; what comes out follows from the file and its seed
// alone. On shm and tcp the same systems run here, and only ratios can be held against the paper.
//
// The experiment "pulls" has objects pulled from one node to another, in the ways of a published system; its
// inputs are costs of single steps, and vary() says how much each figure depends on each of them.
//
// Another kind (experiment = "bars") stands for a sentence of README.md: the bars by which it is shown
// (claim.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/report/findings.h"

#include "refract/base/report.h"

namespace refract::bench {

// Distances and sizes of everything that is not a system's own. Times are microseconds, as papers have them.
struct Testbed {
  double port_gbit_per_s = 0;
  // How long hardware takes for one READ of read_bytes, there and back, all included: the delay of the
  // network is what is left of it when the bytes have gone over the wire.
  double read_us = 0;
  double read_bytes = 0;
  double read_gap_us = 0;  // From one READ that a network card begins to the next.
  uint32_t packet_bytes_max = 0;
  uint32_t message_header_bytes = 0;  // On the wire, from preamble to gap; likewise below.
  uint32_t one_sided_header_bytes = 0;
  uint32_t one_sided_request_bytes = 0;  // What a request has besides: address, key, length.
  uint32_t client_hosts = 0;
};

// What a kind of request takes at the server beyond hardware's READ, which the testbed's read_us contains.
struct Cost {
  double core_us = 0;   // Of one of the cores.
  double delay_us = 0;  // With no core busy.
};

struct System {
  std::string name;
  // Of kv: a name of kv::designs. Of txn: of txn::designs. Of chase: "reads" or "chain". Of pulls: "socket",
  // "send", "send-pieces", "read" or "read-each" (suite_pulls.cc).
  std::string design;
  std::string against;  // Of pulls by READs: the system of which it is asked from which size on READs win.
  uint32_t cores = 1;
  Cost read;
  Cost chain;
  Cost call;
  double get_check_us = 0;    // Of the client's own work for each get.
  std::vector<double> skews;  // Of txn: of Zipf laws, under which its peak is measured, too.
};

// Chase: how far apart client and server are, beyond the testbed's own network.
struct Place {
  std::string name;
  double adds_us = 0;  // There and back.
};

struct Load {
  uint64_t operations = 0;  // Chase: one after the other. Kv: at low load.
  uint64_t keys = 0;
  uint64_t key_bytes = 0;
  uint64_t value_bytes = 0;
  double spare = 0;               // Room in the index for so many times the keys.
  std::vector<uint32_t> clients;  // With one operation each under way; the best rate of these is the peak.
  double run_us = 0;              // Of each rate, in virtual time.
  std::vector<uint64_t> sizes;    // Pulls: bytes of the objects.
};

// What one step takes, by a name of kPullCosts.
struct StepCost {
  std::string name;
  double value = 0;  // In the unit of its name.
  std::string source;
};

struct Figure {
  std::string what;
  std::string system;
  std::string place;
  std::string over;  // A system; the figure is then the ratio of both. Empty: it stands for itself.
  double paper = 0;
  double within_times = 0;   // Ours is off beyond paper x or / this; 0: beyond the suite's tolerance.
  bool is_at_least = false;  // Ours is off only below the paper's.
  std::string source;
  std::string because;  // By which mechanism ours differs, where it does by more than the tolerance.
};

struct Suite {
  std::string name;
  std::string title;
  enum class Experiment : uint8_t { kChase, kKv, kTxn, kPulls, kBars } experiment = Experiment::kChase;
  uint64_t seed = 1;
  double tolerance = 0;        // A share of the paper's figure.
  double ratio_tolerance = 0;  // Of a figure that has `over`: no share, a difference. 0: as of the others.
  Testbed testbed;
  Load load;
  std::vector<System> systems;
  std::vector<Place> places;
  std::vector<StepCost> costs;  // Of kPulls.
  std::vector<Figure> figures;
  // Of kBars alone, which has nothing else of the above.
  std::string claim;              // The sentence, as README.md has it but for its line breaks.
  std::vector<std::string> bars;  // Names of bars().
  std::vector<double> limits;     // That the sentence names, in place of the bars' own; none, or one each.
};

// The names of those that this program was built with.
[[nodiscard]] std::vector<std::string> suite_names();
// `text` is TOML, `path` stands in errors. Refuses what is missing, unknown or cannot be.
[[nodiscard]] Reported<Suite> parse_suite(std::string_view text, const std::string& path);
// By the name of one that this program was built with, or by a path, which has a dot or a slash.
[[nodiscard]] Reported<Suite> read_suite(const std::string& name_or_path);
// Of a suite's size, what CI runs so that nothing rots: its numbers mean little.
void make_small(Suite& suite) noexcept;

enum class SuiteFabric : uint8_t { kSim, kShm, kTcp };
[[nodiscard]] std::string_view text(SuiteFabric fabric) noexcept;

struct Measured {
  std::string system;
  std::string place;
  std::string what;
  std::string unit;
  double value = 0;
};

struct Compared {
  const Figure* figure = nullptr;  // Of the suite.
  std::string unit;
  double ours = 0;
  double difference = 0;  // Of ours from the paper's, as a share of the latter.
  bool is_judged = true;  // On the simulated testbed alone.
};

// All figures with one cost changed, in their order.
struct Varied {
  const StepCost* cost = nullptr;  // Of the suite.
  double times = 1;
  std::vector<double> ours;
};

struct SuiteResult {
  SuiteFabric fabric = SuiteFabric::kSim;
  std::vector<Measured> measured;
  std::vector<Compared> compared;
  std::vector<Varied> varied;  // By vary().
};

[[nodiscard]] Reported<SuiteResult> run_suite(const Suite& suite, SuiteFabric fabric);
// Each cost halved and doubled, the others as they are; simulated. Nothing for a suite without costs.
[[nodiscard]] Reported<std::vector<Varied>> vary(const Suite& suite);
// Null: nothing was measured by these names.
[[nodiscard]] const Measured* find(const std::vector<Measured>& measured, std::string_view what,
                                   std::string_view system, std::string_view place);
// Whether a figure that is judged is further off than the suite allows and nothing says why.
[[nodiscard]] bool has_unexplained(const Suite& suite, const SuiteResult& result);

// What ours may be.
struct Allowed {
  double at_least = 0;
  double at_most = 0;
};
[[nodiscard]] Allowed allowed(const Suite& suite, const Figure& figure) noexcept;
[[nodiscard]] bool is_off(const Suite& suite, const Figure& figure, double ours) noexcept;

// suite_results.cc
[[nodiscard]] std::string lines_of(const Suite& suite, const SuiteResult& result);
void add_to(Findings& findings, const Suite& suite, const SuiteResult& result);

// suite_chase.cc, suite_kv.cc, suite_txn.cc, suite_pulls.cc: the experiments on the simulated fabric.
[[nodiscard]] Reported<std::vector<Measured>> simulate_chase(const Suite& suite);
[[nodiscard]] Reported<std::vector<Measured>> simulate_kv(const Suite& suite);
[[nodiscard]] Reported<std::vector<Measured>> simulate_txn(const Suite& suite);
[[nodiscard]] Reported<std::vector<Measured>> simulate_pulls(const Suite& suite);
// suite_real.cc: the same on this machine. `fabric` is kShm or kTcp.
[[nodiscard]] Reported<std::vector<Measured>> run_real_chase(const Suite& suite, SuiteFabric fabric);
[[nodiscard]] Reported<std::vector<Measured>> run_real_kv(const Suite& suite, SuiteFabric fabric);

}  // namespace refract::bench
