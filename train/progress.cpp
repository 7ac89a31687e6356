#include "train/progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/printable.h"
#include "core/units.h"

namespace tandem::train {

namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr auto kLineEvery = std::chrono::seconds(10);

bool wants_colour() {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return !(no_colour && *no_colour) && !(term && std::string(term) == "dumb");
}

int columns(std::FILE* out) {
  winsize size{};
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(std::FILE* out) : Progress(out, isatty(fileno(out)) == 1, wants_colour()) {}

Progress::Progress(std::FILE* out, bool terminal, bool colour)
    : out_(out), terminal_(terminal), colour_(terminal && colour) {
  last_ = terminal_ ? Clock::time_point{} : Clock::now();
}

Progress::~Progress() { finish(); }

void Progress::update(const ProgressState& state) {
  if (first_step_ < 0) first_step_ = state.total_step - 1;
  const auto now = Clock::now();
  if (now - last_ < (terminal_ ? Clock::duration(kRedraw) : Clock::duration(kLineEvery))) return;
  last_ = now;
  const std::string text = rendered(state);
  if (terminal_) {
    put("\r\x1b[K" + text);
    drawn_ = true;
  } else {
    put(text + "\n");
  }
}

std::string Progress::rendered(const ProgressState& state) const {
  const double elapsed = std::chrono::duration<double>(Clock::now() - started_).count();
  // The first update may come in the middle of a run that goes on.
  const double left = elapsed /
                      static_cast<double>(std::max<std::int64_t>(state.total_step - first_step_, 1)) *
                      static_cast<double>(state.total_steps - state.total_step);
  const std::string head = fmt::format("epoch {}/{}", state.epoch, state.epochs);
  const std::string tail =
      fmt::format("{}/{}  {}  lr {:.4g}  {} items/s  {} left", state.step, state.steps, state.losses,
                  state.lr, count_text(state.items_per_s), duration_text(left));
  const int room = terminal_ ? columns(out_) - static_cast<int>(head.size() + tail.size()) - 5 : 0;
  if (room < 8) return head + "  " + tail;
  const int width = std::min(room, 30);
  const double share =
      static_cast<double>(state.step) / static_cast<double>(std::max<std::int64_t>(state.steps, 1));
  const int filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * width);
  std::string done, rest;
  for (int i = 0; i < width; ++i) (i < filled ? done : rest) += i < filled ? "━" : "╌";
  return colour_ ? fmt::format("{}  \x1b[32m{}\x1b[0m{}  {}", head, done, rest, tail)
                 : fmt::format("{}  {}{}  {}", head, done, rest, tail);
}

void Progress::clear() {
  if (!drawn_) return;
  put("\r\x1b[K");
  drawn_ = false;
}

void Progress::line(const std::string& text) {
  clear();
  put(printable(text) + "\n");
}

void Progress::finish() { clear(); }

// What cannot be shown is not missed: the run goes on.
void Progress::put(const std::string& text) {
  [[maybe_unused]] const auto written = std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
}

}  // namespace tandem::train
