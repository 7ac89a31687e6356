#include "tasks/masked_language/fill_mask.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "autograd/modes.h"
#include "autograd/ops/index.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"
#include "core/error.h"
#include "tasks/classification/answer.h"
#include "tasks/input_texts.h"

namespace tandem::tasks {

namespace {

constexpr std::string_view kMask = "[MASK]";

struct TextWithMasks {
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> masks;  // their positions
  Index unknown = 0;
};

TextWithMasks encoded(std::string_view text, const MaskedLanguageData& data) {
  const datasets::MaskedMarks marks = data.marks();
  TextWithMasks all{.tokens = {marks.begin}, .masks = {}};
  for (;;) {
    const std::size_t mask = text.find(kMask);
    const datasets::EncodedText part = data.codec().encode(text.substr(0, mask));
    all.tokens.insert(all.tokens.end(), part.ids.begin(), part.ids.end());
    all.unknown += part.unknown;
    if (mask == std::string_view::npos) break;
    all.masks.push_back(static_cast<std::int64_t>(all.tokens.size()));
    all.tokens.push_back(marks.mask);
    text.remove_prefix(mask + kMask.size());
  }
  all.tokens.push_back(marks.end);
  return all;
}

}  // namespace

void fill_masks(models::MaskedModel& model, const MaskedLanguageData& data, const PredictRequest& request,
                Device device) {
  require(
      !request.inputs.empty(), "",
      "predict: inputs are missing: texts with {}, files with a text in each line, or - for standard input",
      kMask);
  const NoGrad no_grad;
  const std::vector<std::string> pieces = vocabulary_of(data.codec()).words;
  for (const std::string& text : texts_of(request.inputs)) {
    const TextWithMasks one = encoded(text, data);
    const auto count = static_cast<Index>(one.tokens.size());
    require(!one.masks.empty(), "", "predict: \"{}\" has no {}; write it in place of each word to predict",
            text, kMask);
    require(count <= model.context(), "", "predict: \"{}\" has {} pieces, the model reads at most {}", text,
            count, model.context());
    const Tensor hidden = model.hidden({.tokens = Tensor::from(one.tokens, {1, count}).to(device)});
    const Tensor positions = Tensor::from(one.masks, {static_cast<Index>(one.masks.size())}).to(device);
    const Tensor logits =
        model.word_scores(index_select(reshape(hidden, {count, hidden.size(2)}), positions, 0));
    const std::vector<float> values = (request.logits ? logits : softmax(logits)).to_vector<float>();
    for (std::size_t m = 0; m < one.masks.size(); ++m)
      print_answer(text, {{"mask", m}, {"unknown", one.unknown}},
                   {values.data() + m * pieces.size(), pieces.size()}, pieces, request);
  }
}

}  // namespace tandem::tasks
