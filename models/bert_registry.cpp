// The registered model "bert".
#include "models/bert.h"
#include "models/registry_keys.h"

template <>
struct tandem::options::EnumNames<tandem::models::GeluKind> {
  static constexpr std::array values{"erf", "tanh"};
};

namespace tandem::models {

namespace {

struct BertKeys : Keys<BertOptions> {
  std::optional<Index> given_vocabulary;
};

// The task decides the heads.
std::shared_ptr<Bert> make_bert(const BertKeys& keys, const DataInfo& data) {
  BertOptions options = keys;
  options.vocabulary =
      known_or("vocabulary", keys.given_vocabulary, data.words, options.vocabulary, "the text has");
  if (data.kind == ModelKind::text_encoder || data.kind == ModelKind::span)
    options.masked_words = options.next_sentence = false;
  if (data.kind == ModelKind::text_encoder) options.classes = classes_of(keys.given_classes, data, 2);
  options.spans = data.kind == ModelKind::span;
  if (options.width % options.heads != 0)
    throw OptionError("heads",
                      fmt::format("{} heads do not divide the width of {}", options.heads, options.width));
  return std::make_shared<Bert>(options);
}

}  // namespace

ModelInfo bert_info() {
  options::Describe<BertKeys> keys;
  keys.key("vocabulary", &BertKeys::given_vocabulary, "number of words; inferred from the data", size_rule());
  add_classes(keys)
      .key("num_layers", of<BertKeys>(&BertKeys::layers), "number of Transformer blocks",
           {.min = 1, .max = 1024})
      .key("width", of<BertKeys>(&BertKeys::width), "features of a token", size_rule())
      .key("heads", of<BertKeys>(&BertKeys::heads), "attention heads; a divisor of width", size_rule())
      .key("inner", of<BertKeys>(&BertKeys::inner), "width of the perceptron of a block; 0: 4 · width",
           {.min = 0, .max = kMaxExtent})
      .key("context", of<BertKeys>(&BertKeys::context),
           "longest text, in tokens: number of learned positions", size_rule())
      .key("gelu", of<BertKeys>(&BertKeys::gelu),
           "form of GELU: exact, as in Hugging Face's weights, or by tanh, as in google-research/bert")
      .key("dropout", of<BertKeys>(&BertKeys::dropout),
           "dropout probability of embeddings, of each branch before it is added, and before the classifier",
           probability_rule())
      .key("attention_dropout", of<BertKeys>(&BertKeys::attention_dropout),
           "dropout probability of attention weights", probability_rule())
      .key(
          "next_sentence", of<BertKeys>(&BertKeys::next_sentence),
          "head that predicts whether the second part of a text follows the first one; task masked_language");
  add_recompute(keys);
  return model("bert",
               "BERT: Transformer encoder, for the tasks masked_language, text_classification and "
               "question_answering",
               keys, make_bert);
}

}  // namespace tandem::models
