#include "data/text/question_windows.h"

#include <algorithm>

#include "core/error.h"

namespace tandem::datasets {

namespace {

// Pieces of the context that a part of its text touches.
Range pieces_at(const PlacedText& context, Range bytes) {
  const auto& places = context.places;
  const auto first = std::ranges::partition_point(places, [&](Range r) { return r.last <= bytes.first; });
  const auto last = std::partition_point(first, places.end(), [&](Range r) { return r.first < bytes.last; });
  return {static_cast<std::size_t>(first - places.begin()), static_cast<std::size_t>(last - places.begin())};
}

// The published measure: pieces on the side with fewer, then the length of the window.
double context_of(std::size_t piece, Range window) {
  const std::size_t left = piece - window.first, right = window.last - 1 - piece;
  return static_cast<double>(std::min(left, right)) + 0.01 * static_cast<double>(window.count());
}

// Windows in the order of their pieces.
void set_central(std::span<QuestionWindow> windows) {
  for (QuestionWindow& window : windows) window.central = {window.pieces.last, window.pieces.last};
  std::size_t first = 0;  // the first window with the piece
  for (std::size_t piece = 0; piece < windows.back().pieces.last; ++piece) {
    while (windows[first].pieces.last <= piece) ++first;
    QuestionWindow* best = &windows[first];
    for (QuestionWindow& window : windows.subspan(first + 1)) {
      if (window.pieces.first > piece) break;
      if (context_of(piece, window.pieces) > context_of(piece, best->pieces)) best = &window;
    }
    best->central.first = std::min(best->central.first, piece);
    best->central.last = piece + 1;
  }
}

std::vector<Index> lengths_of_windows(const QuestionWindows& all, Index count) {
  std::vector<Index> lengths;
  for (Index i = 0; i < count; ++i) lengths.push_back(all.windows[static_cast<std::size_t>(i)].length());
  return lengths;
}

}  // namespace

void add_windows(const EncodedQuestions& from, std::size_t question, const QuestionWindowOptions& options,
                 std::vector<QuestionWindow>& to) {
  const Question& asked = from.questions[question];
  const PlacedText& context = from.context_pieces[asked.context];
  const Index words = std::min(static_cast<Index>(from.piece_lists[question].size()), options.max_question);
  const Index room = options.longest - kWindowMarks - words;
  require(room >= 1 && options.stride >= 1, "windows",
          "of {} tokens have no room for a context behind a question of {} pieces, or a stride of {} below 1",
          options.longest, words, options.stride);
  const auto most = static_cast<std::size_t>(room), all = context.ids.size();
  const std::size_t step = std::min(most, static_cast<std::size_t>(options.stride));
  Range answer{};
  if (!asked.answers.empty()) answer = pieces_at(context, from.answer_of(asked));
  const std::size_t before = to.size();
  for (std::size_t first = 0;; first += step) {
    QuestionWindow window{.question = question,
                          .pieces = {first, std::min(all, first + most)},
                          .first = words + kWindowMarks - 1};
    const auto position = [&](std::size_t piece) {
      return window.first + static_cast<Index>(piece - window.pieces.first);
    };
    if (answer.count() > 0 && answer.first >= first && answer.last <= window.pieces.last) {
      window.start = position(answer.first);
      window.end = position(answer.last - 1);
    }
    to.push_back(window);
    if (window.pieces.last == all) break;
  }
  set_central(std::span(to).subspan(before));
}

void write_window(const EncodedQuestions& from, const QuestionWindow& window, const WindowMarks& marks,
                  std::int64_t* tokens, std::int64_t* segments) {
  const auto& words = from.piece_lists[window.question];
  const auto& context = from.context_pieces[from.questions[window.question].context].ids;
  std::int64_t* to = tokens;
  *to++ = marks.begin;
  to = std::copy_n(words.begin(), window.first - (kWindowMarks - 1), to);
  *to++ = marks.end;
  to = std::copy_n(context.begin() + static_cast<std::ptrdiff_t>(window.pieces.first), window.pieces.count(),
                   to);
  *to = marks.end;
  std::fill_n(segments, window.first, 0);
  std::fill_n(segments + window.first, window.length() - window.first, 1);
}

QuestionWindows windows_of(std::shared_ptr<const EncodedQuestions> questions,
                           const QuestionWindowOptions& options, Index first_number) {
  QuestionWindows all{.questions = std::move(questions), .windows = {}, .first_number = first_number};
  for (std::size_t i = 0; i < all.questions->questions.size(); ++i)
    add_windows(*all.questions, i, options, all.windows);
  return all;
}

QuestionSource::QuestionSource(Windows windows, Index count, const WindowMarks& marks, BucketOptions options,
                               Device device, const ShardSpec& division)
    : BucketSource(lengths_of_windows(*windows, count), options, device, division),
      windows_(std::move(windows)),
      count_(count),
      marks_(marks) {
  const Shape full{padded_length(std::ranges::max(epochs_.lengths()), options.grid), layout_.samples()};
  for (const char* const field : {"tokens", "segments"}) layout_.add_whole(field, full, DType::i64);
  layout_.add_whole("mask", full, DType::f32);
  for (const char* const field : {"lengths", "start", "end", "window"}) layout_.add(field, {}, DType::i64);
  layout_.keep_on_host("lengths");
  layout_.keep_on_host("window");
}

SourcePtr QuestionSource::divided(const ShardSpec& division) const {
  return std::make_shared<QuestionSource>(windows_, count_, marks_, epochs_.options(), device_,
                                          this->division().into(division));
}

void QuestionSource::fill(const BatchKey& key, bool, BatchBuffer& buffer) const {
  const auto [order, whole, samples, count, steps] = begin(key, buffer);
  if (count == 0) return;
  const auto numbers = [](const Tensor& field) { return field.data<std::int64_t>(); };
  const Shape texts{count, steps};
  std::int64_t* const tokens = numbers(buffer.field("tokens", texts));
  std::int64_t* const segments = numbers(buffer.field("segments", texts));
  float* const mask = buffer.field("mask", texts).data<float>();
  std::int64_t* const lengths = numbers(buffer.field("lengths"));
  std::int64_t* const start = numbers(buffer.field("start"));
  std::int64_t* const end = numbers(buffer.field("end"));
  std::int64_t* const window = numbers(buffer.field("window"));
  std::fill_n(tokens, count * steps, marks_.padding);
  std::fill_n(segments, count * steps, 0);
  std::fill_n(mask, count * steps, kPaddingScore);
  for (Index n = 0; n < count; ++n) {
    const Index sample = samples[static_cast<std::size_t>(n)];
    const QuestionWindow& one = windows_->windows[static_cast<std::size_t>(sample)];
    write_window(*windows_->questions, one, marks_, tokens + n * steps, segments + n * steps);
    lengths[n] = one.length();
    std::fill_n(mask + n * steps, lengths[n], 0.0F);
    start[n] = one.start;
    end[n] = one.end;
    window[n] = windows_->first_number + sample;
  }
}

}  // namespace tandem::datasets
