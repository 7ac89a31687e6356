// What a person sees while a run goes on: a bar with rate and remaining time on a terminal, a line now and
// then elsewhere. Written to stderr, or to nobody where that cannot be written; colour only on a terminal,
// and never with NO_COLOR set. A terminal's width is COLUMNS where that is set, else what the terminal says.
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
  std::string losses;                            // "loss 0.1234", or of several phases each after its name
  double lr = 0.0;
  std::string items = "items";  // what the rate counts, see Task::samples_are
  double items_per_s = 0.0;
};

// A part of a line. Where a terminal is too narrow for them all, those of the greatest rank are left out
// first; the one of rank 0 is cut.
struct LinePart {
  std::string text;
  int rank = 0;
};

// The parts with two spaces between them, in at most `columns` characters.
std::string fitted(std::vector<LinePart> parts, std::size_t columns);
// All of them.
std::string joined(const std::vector<LinePart>& parts);

class Progress {
 public:
  // Looks at `out` and the environment: a bar when `out` is a terminal.
  explicit Progress(std::FILE* out = stderr);
  Progress(std::FILE* out, bool terminal, bool colour);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Cheap; draws at most ten times a second on a terminal, and a line every ten seconds elsewhere.
  void update(const ProgressState& state);
  // A line that stays; the bar moves below it. Whatever the text holds, it is one line.
  void line(const std::string& text);
  // The same of what fits into one row of the terminal; elsewhere all of it.
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
  std::int64_t first_step_ = -1;  // steps that were done before the first update
  Clock::time_point started_ = Clock::now(), last_{};
};

}  // namespace tandem::train
