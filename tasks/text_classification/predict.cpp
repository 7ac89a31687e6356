#include "tasks/text_classification/predict.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "autograd/ops/softmax.h"
#include "core/error.h"
#include "tasks/classification/answer.h"
#include "tasks/input_texts.h"

namespace tandem::tasks {

namespace {

constexpr std::size_t kTextsAtOnce = 64;

// Scores [N,classes] of texts.
Tensor scores_of(models::TextEncoder& model, std::span<const datasets::EncodedText> texts, Device device) {
  const auto count = static_cast<Index>(texts.size());
  std::vector<std::int64_t> lengths;
  for (const auto& text : texts) lengths.push_back(static_cast<std::int64_t>(text.ids.size()));
  const Tensor token = Tensor::zeros({std::ranges::max(lengths), count}, {.dtype = DType::i64});
  for (Index i = 0; i < count; ++i) {
    const auto& ids = texts[static_cast<std::size_t>(i)].ids;
    for (std::size_t t = 0; t < ids.size(); ++t)
      token.data<std::int64_t>()[static_cast<Index>(t) * count + i] = ids[t];
  }
  return model(token.to(device), Tensor::from(lengths, {count}));
}

}  // namespace

void classify_texts(models::TextEncoder& model, const LabelledTextData& data, const PredictRequest& request,
                    Device device) {
  require(!request.inputs.empty(), "",
          "predict: inputs are missing: texts, files with a text in each line, or - for standard input");
  const NoGrad no_grad;
  const std::vector<std::string> texts = texts_of(request.inputs);
  const std::size_t classes = data.classes().size();
  for (std::size_t first = 0; first < texts.size(); first += kTextsAtOnce) {
    std::vector<datasets::EncodedText> encoded;
    for (std::size_t i = first; i < std::min(texts.size(), first + kTextsAtOnce); ++i)
      encoded.push_back(data.encode(texts[i]));
    const Tensor logits = scores_of(model, encoded, device);
    const std::vector<float> values = (request.logits ? logits : softmax(logits)).to_vector<float>();
    const auto scores = static_cast<std::size_t>(logits.size(1));
    for (std::size_t i = 0; i < encoded.size(); ++i) {
      const bool empty = texts[first + i].empty();  // an empty line has no class
      print_answer(texts[first + i], {{"unknown", encoded[i].unknown}},
                   {values.data() + i * scores, empty ? 0 : std::min(scores, classes)}, data.classes(),
                   request);
    }
  }
}

}  // namespace tandem::tasks
