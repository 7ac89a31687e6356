// Progress display: a bar with rate and remaining time on a terminal, else a line every ten seconds. It is
// written to stderr; write errors are ignored. Colour needs a terminal without NO_COLOR. The width is COLUMNS
// if set, else that of the terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace tandem::train {

struct ProgressState {
  std::int64_t epoch = 1, epochs = 1;            // 1-based
  std::int64_t step = 0, steps = 1;              // within the epoch
  std::int64_t total_step = 0, total_steps = 1;  // over the whole run
  std::string losses;                            // "loss 0.1234", or for several phases one after each name
  double lr = 0.0;
  std::string items = "items";  // unit of the rate, see Task::samples_are
  double items_per_s = 0.0;
};

// Part of a line. A terminal that is too narrow drops the parts of the highest rank first; the part of rank 0
// is truncated.
struct LinePart {
  std::string text;
  int rank = 0;
};

// The parts with two spaces between them, fitted to `columns` characters.
std::string fitted(std::vector<LinePart> parts, std::size_t columns);
// The same without a limit.
std::string joined(const std::vector<LinePart>& parts);

class Progress {
 public:
  // Shows a bar if `out` is a terminal; reads the environment.
  explicit Progress(std::FILE* out = stderr);
  Progress(std::FILE* out, bool terminal, bool colour);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Draws at most ten times a second on a terminal, and prints at most one line every ten seconds elsewhere.
  void update(const ProgressState& state);
  // Prints a line above the bar; line breaks in the text are escaped.
  void line(const std::string& text);
  // The same, fitted to the terminal's width; elsewhere in full.
  void line(const std::vector<LinePart>& parts);
  // Removes the bar.
  void finish();

  bool terminal() const { return terminal_; }

 private:
  using Clock = std::chrono::steady_clock;

  void clear();
  void put(const std::string& text);
  std::vector<LinePart> parts_of(const ProgressState& state) const;
  std::string bar(const ProgressState& state, std::size_t columns) const;

  std::FILE* out_;
  bool terminal_, colour_;
  bool drawn_ = false;
  std::int64_t first_step_ = -1;  // steps before the first update
  Clock::time_point started_ = Clock::now(), last_{};
};

}  // namespace tandem::train
