#include "tasks/question_answering/evaluation.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/shape.h"
#include "core/error.h"
#include "files/json_text.h"
#include "tasks/question_answering/answer_match.h"

namespace tandem::tasks {

Tensor span_loss(const Tensor& scores, const datasets::Batch& batch, bool sum) {
  const Tensor& mask = batch["mask"];
  const TensorList ends = split(scores, {1, 1}, 2);
  const auto loss = [&](std::size_t which, const char* target) {
    return cross_entropy(reshape(ends[which], {mask.size(0), mask.size(1)}) + mask, batch[target],
                         {.reduce = sum ? Reduce::sum : Reduce::mean});
  };
  return mul(add(loss(0, "start"), loss(1, "end")), 0.5);
}

const datasets::QuestionWindows& QuestionEvaluation::part_of_window(std::int64_t number) const {
  for (const auto& part : parts_)
    if (number >= part->first_number && number < part->first_number + part->size()) return *part;
  throw InternalError("question answering", fmt::format("there is no window {}", number));
}

Record QuestionEvaluation::forward(const datasets::Batch& batch) {
  const NoGrad no_grad;
  const Tensor scores = window_scores(model_, batch);
  const double nll = span_loss(scores, batch, true).item();
  const std::vector<float> values = scores.to_vector<float>();
  const auto numbers = batch.on_host("window").to_vector<std::int64_t>();
  const std::size_t each = values.size() / numbers.size();
  std::vector<OfWindow> all;
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    const datasets::QuestionWindows& part = part_of_window(numbers[n]);
    const FoundAnswers found =
        find_spans(part.windows[static_cast<std::size_t>(numbers[n] - part.first_number)],
                   std::span(values).subspan(n * each, each), options_.max_answer, 1);
    OfWindow& own = all.emplace_back(OfWindow{.window = numbers[n], .none = found.none});
    if (found.best.empty()) continue;
    own.pieces = found.best.front().pieces;
    own.score = found.best.front().score;
  }
  RecordWriter writer;
  writer.put(nll).put_all(all);
  return std::move(writer).record();
}

void QuestionEvaluation::accumulate(std::span<const std::byte> record) {
  RecordReader reader(record);
  const auto nll = reader.take<double>();
  const auto all = reader.take_all<OfWindow>();
  reader.end();
  loss_.add(nll, static_cast<std::int64_t>(all.size()));
  for (const OfWindow& one : all) {
    const datasets::QuestionWindows& part = part_of_window(one.window);
    const std::size_t question =
        part.windows[static_cast<std::size_t>(one.window - part.first_number)].question;
    FoundAnswers in_window{.best = {}, .none = one.none};
    if (one.pieces.count() > 0) in_window.best.push_back({one.pieces, one.score});
    found_[{part.questions.get(), question}].add(in_window, 1);
  }
}

template <class Use>
void QuestionEvaluation::each_answer(const Use& use) const {
  for (const auto& [key, found] : found_) {
    const auto& [questions, question] = key;
    const bool none = has_no_answer(found, unanswerable_, options_.null_threshold);
    use(questions->questions[question],
        none ? std::string_view() : text_of_answer(*questions, question, found.best.front()));
  }
}

Metrics QuestionEvaluation::metrics() const {
  double f1 = 0.0, exact = 0.0;
  each_answer([&](const datasets::Question& question, std::string_view answer) {
    const AnswerMatch match = match_answer(answer, question.answers);
    f1 += match.f1;
    exact += match.exact ? 1.0 : 0.0;
  });
  const auto count = static_cast<double>(std::max<std::size_t>(found_.size(), 1));
  return {{"f1", f1 / count}, {"exact_match", exact / count}, {"loss", loss_.mean()}};
}

std::vector<Artifact> QuestionEvaluation::artifacts() const {
  if (!keeps_) return {};
  Json answers = Json::object();
  each_answer(
      [&](const datasets::Question& question, std::string_view answer) { answers[question.id] = answer; });
  return {{"predictions.json", files::json_text(answers, 1) + "\n"}};
}

}  // namespace tandem::tasks
