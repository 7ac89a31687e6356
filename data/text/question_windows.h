// Windows: [CLS] question [SEP] pieces of the context [SEP], the samples of a model that finds answers. A
// context that does not fit is read in several overlapping windows.
//
// Fields of a batch: "tokens" and "segments" i64 [N,T], padded at the end, where the context and the [SEP]
// behind it are segment 1; "mask" f32 [N,T], 0 for tokens and kPaddingScore for padding, to be added to
// scores; "lengths" i64 [N]; "start" and "end" i64 [N], positions of the first and last piece of the answer,
// 0 ([CLS]) where the window does not contain all of it; "window" i64 [N], numbers of the windows. T and N
// are those of the batch in the epoch's order (data/text/length_buckets.h). Batch::samples is N.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "data/text/bucket_epochs.h"
#include "data/text/questions.h"

namespace tandem::datasets {

// Excludes positions from a softmax; finite in every dtype.
inline constexpr float kPaddingScore = -10000.0F;

struct QuestionWindowOptions {
  Index longest = 384;      // tokens of a window
  Index max_question = 64;  // pieces of a question that are read, its first ones
  Index stride = 128;       // pieces from the start of a window to that of the next
};

// Tokens of a window besides question and context.
inline constexpr Index kWindowMarks = 3;

struct QuestionWindow {
  std::size_t question = 0;  // index
  Range pieces{};            // of the context
  Index first = 0;           // position of the first of them
  Index start = 0, end = 0;  // positions of the answer's first and last piece, 0: not in this window
  // Pieces with at least as much context on both sides as in any other window of the question (the first of
  // them on ties); answers begin there.
  Range central{};

  Index length() const { return first + static_cast<Index>(pieces.count()) + 1; }
};

// Appends the windows of a question. Throws UserError when a window has no room for the context.
void add_windows(const EncodedQuestions& from, std::size_t question, const QuestionWindowOptions& options,
                 std::vector<QuestionWindow>& to);

struct WindowMarks {
  std::int32_t begin = 0, end = 0, padding = 0;
};
// Writes the tokens of a window, length() of them, and its segments.
void write_window(const EncodedQuestions& from, const QuestionWindow& window, const WindowMarks& marks,
                  std::int64_t* tokens, std::int64_t* segments);

// Windows of a split; they are numbered from `first_number` on.
struct QuestionWindows {
  std::shared_ptr<const EncodedQuestions> questions;
  std::vector<QuestionWindow> windows;
  Index first_number = 0;

  Index size() const { return static_cast<Index>(windows.size()); }
};
QuestionWindows windows_of(std::shared_ptr<const EncodedQuestions> questions,
                           const QuestionWindowOptions& options, Index first_number = 0);

class QuestionSource final : public BucketSource {
 public:
  using Windows = std::shared_ptr<const QuestionWindows>;

  // The first `count` windows. Throws UserError as order_buckets does, and for an invalid division.
  QuestionSource(Windows windows, Index count, const WindowMarks& marks, BucketOptions options,
                 Device device = {}, const ShardSpec& division = {});

  SourcePtr divided(const ShardSpec& division) const override;
  void fill(const BatchKey& key, bool parallel, BatchBuffer& buffer) const override;

 private:
  Windows windows_;
  Index count_;
  WindowMarks marks_;
};

}  // namespace tandem::datasets
