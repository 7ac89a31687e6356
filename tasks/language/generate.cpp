#include "tasks/language/generate.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "core/error.h"
#include "files/json_text.h"
#include "files/output.h"
#include "tasks/input_texts.h"
#include "tasks/sequence/sampling.h"

namespace tandem::tasks {

namespace {

constexpr Index kWords = 100;

// Feeds a single row to the model word by word.
class Reader {
 public:
  Reader(models::CausalModel& model, Device device) : model_(model), device_(device) {}

  // The scores of the next word.
  std::vector<float> after(std::int32_t word) {
    const Tensor token = Tensor::from(std::vector<std::int64_t>{word}, Shape{1, 1}).to(device_);
    const auto advanced = model_.advance(token, state_);
    state_ = advanced.state;
    return model_.scores(advanced.hidden).to_vector<float>();
  }

 private:
  models::CausalModel& model_;
  Device device_;
  models::State state_;
};

// Words, and the line ends between them.
std::vector<std::string> words_of(std::string_view prompt, const LanguageData& data) {
  std::vector<std::string> words;
  for (;;) {
    const std::size_t end = prompt.find('\n');
    std::ranges::move(data.tokenizer().encode(prompt.substr(0, end)), std::back_inserter(words));
    if (end == std::string_view::npos) return words;
    words.emplace_back(datasets::Vocabulary::kEndWord);
    prompt.remove_prefix(end + 1);
  }
}

// The inverse; the prompt begins the text.
std::string text_of(const std::vector<std::string>& words, const LanguageData& data) {
  std::string text;
  for (auto first = words.begin();;) {
    const auto end = std::find(first, words.end(), datasets::Vocabulary::kEndWord);
    text += data.tokenizer().decode({first, end});
    if (end == words.end()) return text;
    text += '\n';
    first = end + 1;
  }
}

std::string prompt_of(const PredictRequest& request) {
  if (request.prompt != "-") return request.prompt.value_or("");
  std::string prompt = standard_input();
  if (prompt.ends_with('\n')) prompt.pop_back();
  return prompt;
}

// The two characters "\n", as a shell passes them, mean a line end.
std::string stop_of(const PredictRequest& request) {
  std::string stop = request.stop.value_or("");
  for (std::size_t at = 0; (at = stop.find("\\n", at)) != std::string::npos;) stop.replace(at, 2, "\n");
  return stop;
}

}  // namespace

void write_text(models::CausalModel& model, const LanguageData& data, const PredictRequest& request,
                Device device) {
  const NoGrad no_grad;
  const SamplingOptions sampling{.temperature = request.temperature.value_or(1.0), .top_k = request.top};
  const auto seed = static_cast<std::uint64_t>(request.seed.value_or(0));
  const Index count = request.count.value_or(kWords);
  const std::string stop = stop_of(request), prompt = prompt_of(request);
  std::vector<std::string> words = words_of(prompt, data);
  const std::size_t given = words.size(), given_bytes = text_of(words, data).size();
  const datasets::EncodedText known = data.vocabulary().encode(words);

  Reader reader(model, device);
  std::vector<float> scores;
  if (known.ids.empty()) scores = reader.after(datasets::Vocabulary::kEnd);
  for (const std::int32_t word : known.ids) scores = reader.after(word);
  std::size_t stopped = std::string::npos;
  for (Index position = 0; position < count && stopped == std::string::npos; ++position) {
    const std::int32_t next =
        sample_token(scores, sampling, {.seed = seed, .position = static_cast<std::uint32_t>(position)});
    words.push_back(data.vocabulary().word(next));
    if (!stop.empty()) stopped = text_of(words, data).find(stop, given_bytes);
    scores = reader.after(next);
  }
  const std::string text = text_of(words, data).substr(0, stopped);
  if (request.json) {
    output::print("{}\n", files::json_text(Json{{"prompt", prompt},
                                                {"text", text},
                                                {"unknown", known.unknown},
                                                {"seed", seed},
                                                {"temperature", sampling.temperature}}));
    return;
  }
  if (known.unknown > 0)
    output::remark("predict: {} of the prompt's {} {} are not known to the model, and read as {}\n",
                   known.unknown, given, data.tokenizer().of_characters() ? "characters" : "words",
                   datasets::Vocabulary::kUnknownWord);
  output::print("{}\n", text);
}

}  // namespace tandem::tasks
