#include "tasks/language/generate.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

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

// Reads one text, and gives the scores of its next word.
class Reader {
 public:
  Reader(models::CausalModel& model, Device device) : model_(model), device_(device) {}

  std::vector<float> after(std::span<const std::int32_t> words) {
    text_.insert(text_.end(), words.begin(), words.end());
    const auto size = static_cast<Index>(text_.size());
    if (!model_.is_bounded() || size - first_ <= model_.context()) return read(words);
    first_ = size - (*model_.context() + 1) / 2;
    state_ = {};
    return read(std::span(text_).subspan(static_cast<std::size_t>(first_)));
  }

 private:
  std::vector<float> read(std::span<const std::int32_t> words) {
    if (state_.empty()) state_ = model_.begin(1);
    const auto count = static_cast<Index>(words.size());
    const Tensor tokens = Tensor::from(std::vector<std::int64_t>(words.begin(), words.end()), {count, 1});
    const auto advanced = model_.advance(tokens.to(device_), state_);
    state_ = advanced.state;
    return model_.scores(advanced.hidden.rows(count - 1, 1)).to_vector<float>();
  }

  models::CausalModel& model_;
  Device device_;
  models::State state_;
  std::vector<std::int32_t> text_;
  Index first_ = 0;  // of the words in the state
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

// Text of words, which grows.
class GrowingText {
 public:
  explicit GrowingText(const datasets::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void add(const std::string& word) {
    text_.resize(line_begin_);
    const bool ends = word == datasets::Vocabulary::kEndWord;
    if (!ends) line_.push_back(word);
    text_ += tokenizer_.decode(line_);
    if (!ends) return;
    text_ += '\n';
    line_begin_ = text_.size();
    line_.clear();
  }
  const std::string& text() const { return text_; }

 private:
  const datasets::Tokenizer& tokenizer_;
  std::string text_;
  std::size_t line_begin_ = 0;
  std::vector<std::string> line_;  // words of the last line
};

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

SamplingOptions sampling_of(const PredictRequest& request) {
  return {.temperature = request.temperature.value_or(1.0),
          .top_k = request.top,
          .top_p = request.top_p,
          .repetition_penalty = request.repetition_penalty.value_or(1.0)};
}

// Bytes of `text` that no later words can make part of `stop`.
std::size_t certain(const std::string& text, const std::string& stop) {
  for (std::size_t held = std::min(text.size(), stop.size()); held > 0; --held)
    if (text.ends_with(stop.substr(0, held))) return text.size() - held;
  return text.size();
}

}  // namespace

void write_text(models::CausalModel& model, const LanguageData& data, const PredictRequest& request,
                Device device) {
  const NoGrad no_grad;
  const SamplingOptions sampling = sampling_of(request);
  const auto seed = static_cast<std::uint64_t>(request.seed.value_or(0));
  const Index count = request.count.value_or(kWords);
  const std::string stop = stop_of(request), prompt = prompt_of(request);
  const std::vector<std::string> words = words_of(prompt, data);
  const std::size_t given = words.size();
  const char* const units = data.tokenizer().of_characters() ? "characters" : "words";
  const datasets::EncodedText known = data.vocabulary().encode(words);
  if (model.is_bounded())
    require(static_cast<Index>(given) <= *model.context(), "predict",
            "the prompt has {} {}, but the model reads {} at most; shorten it, or train with a larger "
            "model.context",
            given, units, *model.context());
  if (known.unknown > 0 && !request.json)
    output::remark("predict: {} of the prompt's {} {} are not known to the model, and read as {}\n",
                   known.unknown, given, units, datasets::Vocabulary::kUnknownWord);

  GrowingText growing(data.tokenizer());
  for (const std::string& word : words) growing.add(word);
  std::size_t done = 0;  // bytes that are printed, and not part of `stop`
  const auto print_up_to = [&](std::size_t last) {
    if (last <= done) return;
    if (!request.json) {
      output::print("{}", growing.text().substr(done, last - done));
      output::flush_result();
    }
    done = last;
  };
  print_up_to(growing.text().size());

  Reader reader(model, device);
  std::vector<std::int32_t> ids = known.ids;
  std::vector<float> scores = reader.after(ids.empty() ? std::vector{datasets::Vocabulary::kEnd} : ids);
  std::size_t end = std::string::npos;
  for (Index position = 0; position < count; ++position) {
    const SamplingDraw draw{.seed = seed, .position = static_cast<std::uint32_t>(position)};
    ids.push_back(sample_token(scores, sampling, draw, ids));
    growing.add(data.vocabulary().word(ids.back()));
    if (!stop.empty()) end = growing.text().find(stop, done);
    if (end != std::string::npos) break;
    print_up_to(certain(growing.text(), stop));
    if (position + 1 < count) scores = reader.after(std::span(ids).last(1));
  }
  end = std::min(end, growing.text().size());
  if (!request.json) {
    print_up_to(end);
    output::print("\n");
    return;
  }
  output::print("{}\n", files::json_text(Json{{"prompt", prompt},
                                              {"text", growing.text().substr(0, end)},
                                              {"unknown", known.unknown},
                                              {"seed", seed},
                                              {"temperature", sampling.temperature}}));
}

}  // namespace tandem::tasks
