#include "train/progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "core/printable.h"
#include "core/text_width.h"
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

// One column less than the terminal has: some terminals wrap a full row.
std::size_t usable_columns(std::FILE* out) {
  constexpr int kUsual = 80, kLeast = 20;
  int columns = 0;
  if (const char* given = std::getenv("COLUMNS")) columns = std::atoi(given);
  winsize size{};
  if (columns <= 0 && ioctl(fileno(out), TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  return static_cast<std::size_t>(std::max(columns > 0 ? columns : kUsual, kLeast) - 1);
}

std::string cut(const std::string& text, std::size_t columns) {
  std::size_t characters = 0, end = 0;
  for (; end < text.size(); ++end) {
    if ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) continue;
    if (characters++ == columns) break;
  }
  return text.substr(0, end);
}

}  // namespace

std::string joined(const std::vector<LinePart>& parts) {
  std::string text;
  for (const LinePart& part : parts) text += (text.empty() ? "" : "  ") + part.text;
  return text;
}

std::string fitted(std::vector<LinePart> parts, std::size_t columns) {
  while (parts.size() > 1 && text_width(joined(parts)) > columns) {
    const auto least = std::ranges::max_element(parts, {}, &LinePart::rank);
    parts.erase(least);
  }
  return cut(joined(parts), columns);
}

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
  if (terminal_) {
    put("\r\x1b[K" + bar(state, usable_columns(out_)));
    drawn_ = true;
  } else {
    put(joined(parts_of(state)) + "\n");
  }
}

std::vector<LinePart> Progress::parts_of(const ProgressState& state) const {
  const double elapsed = std::chrono::duration<double>(Clock::now() - started_).count();
  // A resumed run starts in the middle.
  const double left = elapsed /
                      static_cast<double>(std::max<std::int64_t>(state.total_step - first_step_, 1)) *
                      static_cast<double>(state.total_steps - state.total_step);
  return {{fmt::format("epoch {}/{}", state.epoch, state.epochs), 0},
          {fmt::format("{}/{}", state.step, state.steps), 3},
          {state.losses, 1},
          {fmt::format("lr {:.4g}", state.lr), 5},
          {fmt::format("{} {}/s", count_text(state.items_per_s), state.items), 4},
          {fmt::format("{} left", duration_text(left)), 2}};
}

// Inserts the bar after the epoch, if there is room for it.
std::string Progress::bar(const ProgressState& state, std::size_t columns) const {
  constexpr std::size_t kNarrowest = 8, kWidest = 30;
  std::vector<LinePart> parts = parts_of(state);
  const std::size_t taken = text_width(joined(parts)) + 2;
  if (taken + kNarrowest > columns) return fitted(std::move(parts), columns);
  const auto width = std::min(columns - taken, kWidest);
  const double share =
      static_cast<double>(state.step) / static_cast<double>(std::max<std::int64_t>(state.steps, 1));
  const auto filled = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(width));
  std::string done, rest;
  for (std::size_t i = 0; i < width; ++i) (i < filled ? done : rest) += i < filled ? "━" : "╌";
  if (colour_) done = "\x1b[32m" + done + "\x1b[0m";
  parts.insert(parts.begin() + 1, {done + rest, 0});
  return joined(parts);
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

void Progress::line(const std::vector<LinePart>& parts) {
  line(terminal_ ? fitted(parts, usable_columns(out_)) : joined(parts));
}

void Progress::finish() { clear(); }

// Write errors are ignored: training does not depend on the display.
void Progress::put(const std::string& text) {
  [[maybe_unused]] const auto written = std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
}

}  // namespace tandem::train
