// SPDX-License-Identifier: Apache-2.0
// top: a node at work.
#include <fmt/format.h>
#include <unistd.h>

#include "apps/refract/commands.h"
#include "apps/refract/node_link.h"
#include "apps/refract/terminal.h"
#include "apps/refract/top/live_terminal.h"
#include "apps/refract/top/top_figures.h"

namespace refract::cli {
namespace {

constexpr char kCtrlC = 3;
constexpr char kCtrlD = 4;

// Looks at one node again and again, through restarts of its server and of the whole node.
class Watch {
 public:
  explicit Watch(const Invocation& invocation) : invocation_(invocation) {}

  // The figures since the last look; empty: trouble() says why.
  [[nodiscard]] Reported<Figures> look() {
    if (link_ == nullptr || link_->is_lost()) {
      link_.reset();
      auto opened = NodeLink::open(link_options(invocation_));
      if (!opened) return report(with_what_to_start(opened.error()));
      link_ = std::move(*opened);
    }
    auto now = look_at(*link_, invocation_.connections_max);
    if (!now) return report(now.error());
    const Look before = std::exchange(last_, std::move(*now));
    return figures_of(before, last_);
  }

  // Until `done()`, asked after each wake-up, or the interval is over.
  template <typename Done>
  void pause(Done&& done) {
    runtime::Shard& shard = link_ != nullptr ? link_->shard() : idle_;
    (void)shard.run_until(done, shard.refresh_now() + invocation_.interval_ns);
  }

  // Keys end the pause.
  void watch_keys() noexcept {
    (void)idle_.watch(STDIN_FILENO);
    if (link_ != nullptr) (void)link_->shard().watch(STDIN_FILENO);
  }

 private:
  const Invocation& invocation_;
  runtime::Shard idle_{system_clock()};
  std::unique_ptr<NodeLink> link_;
  Look last_;
};

int print_looks(Watch& watch, const Invocation& invocation) {
  if (auto first = watch.look(); !first) return complain(first.error());
  const bool once = invocation.once || !invocation.json;
  do {
    watch.pause([] { return false; });
    const auto figures = watch.look();
    if (!figures) return complain(figures.error());
    const std::string text = invocation.json ? to_json(*figures) + "\n" : draw(*figures, {.columns = 200});
    if (const int written = write_text(text); written != kDone) return written;
  } while (!once);
  return kDone;
}

int show_live(Watch& watch) {
  auto figures = watch.look();
  if (!figures) return complain(figures.error());
  LiveTerminal terminal;
  Figures shown = *figures;
  Report trouble{Code::kOk, "", ""};
  for (;;) {
    ScreenSize size = terminal.size();
    std::string text;
    if (trouble.code != Code::kOk) {
      text = fmt::format("{}\n{}\nlast seen:\n", printable(trouble.what), printable(trouble.next));
      size.rows = size.rows > 3 ? size.rows - 3 : 1;
    }
    terminal.show(text + draw(shown, size));
    watch.watch_keys();
    bool quit = false;
    bool resized = false;
    watch.pause([&] {
      while (const auto key = terminal.key()) quit = quit || *key == 'q' || *key == kCtrlC || *key == kCtrlD;
      resized = resized || terminal.is_resized();
      return quit || resized || terminal.is_ended();
    });
    if (quit || terminal.is_ended()) return kDone;
    if (resized) continue;
    figures = watch.look();
    trouble = figures ? Report{Code::kOk, "", ""} : figures.error();
    if (figures) shown = std::move(*figures);
  }
}

}  // namespace

int run_top(const Invocation& invocation) {
  Watch watch(invocation);
  const bool live = !invocation.once && !invocation.json && LiveTerminal::is_possible();
  return live ? show_live(watch) : print_looks(watch, invocation);
}

}  // namespace refract::cli
