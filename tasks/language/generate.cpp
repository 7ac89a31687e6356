#include "tasks/language/generate.h"

#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "core/error.h"
#include "files/json_text.h"
#include "files/output.h"
#include "tasks/sequence/sampling.h"

namespace tandem::tasks {

namespace {

constexpr Index kWords = 100;

// Reads a stream of one row word by word.
class Reader {
 public:
  Reader(models::LanguageModel& model, Device device) : model_(model), device_(device) {}

  // The scores of the next word.
  std::vector<float> after(std::int32_t word) {
    const Tensor token = Tensor::from(std::vector<std::int64_t>{word}, Shape{1, 1}).to(device_);
    const auto [logits, state] = model_(token, state_);
    state_ = state;
    return logits.to_vector<float>();
  }

 private:
  models::LanguageModel& model_;
  Device device_;
  RnnState state_;
};

}  // namespace

void write_text(models::LanguageModel& model, const LanguageData& data, const PredictRequest& request,
                Device device) {
  const NoGrad no_grad;
  const SamplingOptions sampling{.temperature = request.temperature.value_or(1.0), .top_k = request.top};
  const auto seed = static_cast<std::uint64_t>(request.seed.value_or(0));
  const Index count = request.count.value_or(kWords);
  const std::string prompt = request.prompt.value_or("");
  const std::vector<std::string> given = data.tokenizer().encode(prompt);
  const datasets::EncodedText known = data.vocabulary().encode(given);

  Reader reader(model, device);
  std::vector<float> scores;
  if (known.ids.empty()) scores = reader.after(datasets::Vocabulary::kEnd);
  for (const std::int32_t word : known.ids) scores = reader.after(word);
  std::vector<std::string> words = given;
  for (Index position = 0; position < count; ++position) {
    const std::int32_t next =
        sample_token(scores, sampling, {.seed = seed, .position = static_cast<std::uint32_t>(position)});
    if (next == datasets::Vocabulary::kEnd) break;
    words.push_back(data.vocabulary().word(next));
    scores = reader.after(next);
  }
  const std::string text = data.tokenizer().decode(words);
  if (request.json) {
    output::print("{}\n", files::json_text(Json{{"prompt", prompt},
                                                {"text", text},
                                                {"unknown", known.unknown},
                                                {"seed", seed},
                                                {"temperature", sampling.temperature}}));
    return;
  }
  if (known.unknown > 0)
    output::remark("predict: {} of the prompt's {} words are not known to the model, and read as {}\n",
                   known.unknown, given.size(), datasets::Vocabulary::kUnknownWord);
  output::print("{}\n", text);
}

}  // namespace tandem::tasks
