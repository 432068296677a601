// SPDX-License-Identifier: Apache-2.0
#include "tests/campaign/conviction.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>

namespace refract::campaign {
namespace {

std::string first_conviction(uint64_t seeds, const std::function<std::string(uint64_t seed)>& wrong_of,
                             int progress) {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    if (write(progress, &seed, sizeof(seed)) != sizeof(seed)) break;
    const std::string wrong = wrong_of(seed);
    if (!wrong.empty()) return wrong.substr(0, 240);
  }
  return "";
}

}  // namespace

Conviction convict(uint64_t seeds, const std::function<std::string(uint64_t seed)>& wrong_of) {
  std::array<int, 2> pipe_ends{};
  if (pipe(pipe_ends.data()) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    close(pipe_ends[0]);
    (void)freopen("/dev/null", "w", stderr);
    const std::string sentence = first_conviction(seeds, wrong_of, pipe_ends[1]);
    const uint64_t end = 0;
    const bool told = write(pipe_ends[1], &end, sizeof(end)) == sizeof(end) &&
                      write(pipe_ends[1], sentence.data(), sentence.size()) >= 0;
    _exit(told ? 0 : 1);
  }
  close(pipe_ends[1]);
  Conviction conviction;
  uint64_t word = 0;
  while (read(pipe_ends[0], &word, sizeof(word)) == sizeof(word) && word != 0) conviction.seed = word;
  conviction.sentence.resize(1'000);
  const ssize_t bytes = read(pipe_ends[0], conviction.sentence.data(), conviction.sentence.size());
  conviction.sentence.resize(static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
  close(pipe_ends[0]);
  int status = 0;
  const bool ended = waitpid(child, &status, 0) == child;
  if (ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) {
    conviction.sentence = fmt::format("seed {}: a check of the store's own failed", conviction.seed);
  }
  return conviction;
}

}  // namespace refract::campaign
