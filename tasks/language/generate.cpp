#include "tasks/language/generate.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

#include "autograd/modes.h"
#include "autograd/ops/elementwise.h"
#include "core/error.h"
#include "data/text/streamed_text.h"
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

struct EncodedPrompt {
  datasets::EncodedText encoded;
  std::string text;  // as the codec writes it
};

// A line end is the end of a line, unless the codec has ids for it.
EncodedPrompt encode_prompt(std::string_view prompt, const datasets::TextCodec& codec) {
  if (codec.keeps_line_ends()) return {codec.encode(prompt), std::string(prompt)};
  EncodedPrompt all;
  for (;;) {
    const std::size_t end = prompt.find('\n');
    const std::string_view line = prompt.substr(0, end);
    const datasets::EncodedText encoded = codec.encode(line);
    std::ranges::copy(encoded.ids, std::back_inserter(all.encoded.ids));
    all.encoded.unknown += encoded.unknown;
    all.text += codec.written(line);
    if (end == std::string_view::npos) return all;
    all.encoded.ids.push_back(codec.end());
    all.text += '\n';
    prompt.remove_prefix(end + 1);
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
  const datasets::TextCodec& codec = data.codec();
  const auto [known, given] = encode_prompt(prompt, codec);
  require(!request.prompt || !known.ids.empty(), "predict",
          "the prompt is empty; leave out --prompt to begin a text");
  if (model.is_bounded())
    require(std::ssize(known.ids) <= *model.context(), "predict",
            "the prompt has {} {}, but the model reads {} at most; shorten it, or train with a larger "
            "model.context",
            known.ids.size(), data.units(), *model.context());
  if (known.unknown > 0 && !request.json)
    output::remark("predict: {} of the prompt's {} {} are not known to the model, and read as {}\n",
                   known.unknown, known.ids.size(), data.units(), codec.piece(codec.unknown()));

  std::string text = given;
  datasets::StreamedText streamed(codec);
  for (const std::int32_t id : known.ids) streamed.add(id);
  std::size_t done = 0;  // bytes that are printed, and not part of `stop`
  const auto print_up_to = [&](std::size_t last) {
    if (last <= done) return;
    if (!request.json) {
      output::print("{}", text.substr(done, last - done));
      output::flush_result();
    }
    done = last;
  };
  print_up_to(text.size());

  Reader reader(model, device);
  std::vector<std::int32_t> ids = known.ids;
  std::vector<float> scores = reader.after(ids.empty() ? std::vector{codec.begin()} : ids);
  std::size_t end = std::string::npos;
  for (Index position = 0; position < count && end == std::string::npos; ++position) {
    const SamplingDraw draw{.seed = seed, .position = static_cast<std::uint32_t>(position)};
    ids.push_back(sample_token(scores, sampling, draw, ids));
    text += streamed.add(ids.back());
    if (!stop.empty()) end = text.find(stop, done);
    if (end != std::string::npos) break;
    print_up_to(certain(text, stop));
    if (position + 1 < count) scores = reader.after(std::span(ids).last(1));
  }
  if (end == std::string::npos) text += streamed.finish();
  end = std::min(end, text.size());
  if (!request.json) {
    print_up_to(end);
    output::print("\n");
    return;
  }
  output::print("{}\n", files::json_text(Json{{"prompt", prompt},
                                              {"text", text.substr(0, end)},
                                              {"unknown", known.unknown},
                                              {"seed", seed},
                                              {"temperature", sampling.temperature}}));
}

}  // namespace tandem::tasks
