#include "models/encoder_decoder.h"
#include "models/gpt.h"
#include "models/language_model.h"
#include "models/registry_keys.h"
#include "models/text_classifier.h"
#include "models/transformer.h"

template <>
struct tandem::options::EnumNames<tandem::RnnCell> {
  static constexpr std::array values{"lstm", "gru", "rnn_tanh", "rnn_relu"};
};
template <>
struct tandem::options::EnumNames<tandem::models::TextPooling> {
  static constexpr std::array values{"mean", "last"};
};
template <>
struct tandem::options::EnumNames<tandem::models::AttentionKind> {
  static constexpr std::array values{"bahdanau_normalised", "bahdanau", "luong_general", "luong_dot"};
};
template <>
struct tandem::options::EnumNames<tandem::nn::BlockActivation> {
  static constexpr std::array values{"gelu", "gelu_tanh", "relu", "swiglu"};
};
template <>
struct tandem::options::EnumNames<tandem::nn::BlockNorm> {
  static constexpr std::array values{"layer", "rms"};
};
template <>
struct tandem::options::EnumNames<tandem::models::TransformerActivation> {
  static constexpr std::array values{"relu", "gelu"};
};
template <>
struct tandem::options::EnumNames<tandem::models::GptPositions> {
  static constexpr std::array values{"learned", "rotary", "alibi", "none"};
};
template <>
struct tandem::options::EnumNames<tandem::models::ResidualType> {
  static constexpr std::array values{"fp32", "16bit"};
};

namespace tandem::models {

namespace {

using options::Describe;
using options::Rule;

struct LanguageModelKeys : LanguageModelOptions {
  std::optional<Index> given_vocabulary;
  options::Choice<word_softmaxes> given_softmax;
};

Rule dropout_rule() {
  Rule rule = probability_rule();
  rule.keyword = "auto";
  return rule;
}

ModelInfo language_model_info() {
  using Keys = LanguageModelKeys;
  Describe<Keys> keys;
  keys.key("vocabulary", &Keys::given_vocabulary, "number of words; inferred from the data", size_rule())
      .key("embedding", of<Keys>(&Keys::embedding), "embedding size", size_rule())
      .key("units", of<Keys>(&Keys::units), "units of each recurrent layer", size_rule())
      .key("num_layers", of<Keys>(&Keys::layers), "number of stacked recurrent layers", {.min = 1, .max = 64})
      .key("cell", of<Keys>(&Keys::cell), "cell type")
      .key("projection", of<Keys>(&Keys::projection), "outputs of an lstm layer; 0: units",
           {.min = 0, .max = kMaxExtent})
      .key("dropout", of<Keys>(&Keys::dropout),
           "dropout probability on the input, between layers and on the output", probability_rule())
      .key("tied", of<Keys>(&Keys::tied), "tie the output weights to the embedding table")
      .key("init", of<Keys>(&Keys::init),
           "above 0: weights start uniform in [-init, init], biases at 0; 0: each layer as in PyTorch",
           {.min = 0.0})
      .key("recompute", of<Keys>(&Keys::recompute),
           "keep every 16th state for backward and recompute the gates: less memory, more time")
      .key("softmax", &Keys::given_softmax, "softmax over words")
      .key("last_units", of<Keys>(&Keys::last_units),
           "units of the last layer; tied weights need the embedding size; 0: units",
           {.min = 0, .max = kMaxExtent})
      .key("input_dropout", of<Keys>(&Keys::input_dropout), "dropout probability on the input; auto: dropout",
           dropout_rule())
      .key("output_dropout", of<Keys>(&Keys::output_dropout),
           "dropout probability on the output; auto: dropout", dropout_rule())
      .key("locked_dropout", of<Keys>(&Keys::locked_dropout),
           "use one dropout mask for all steps of a batch (variational dropout)")
      .key("word_dropout", of<Keys>(&Keys::word_dropout),
           "probability that a word of the vocabulary is replaced by zeros in the whole batch",
           probability_rule())
      .key("weight_dropout", of<Keys>(&Keys::weight_dropout),
           "dropout probability of recurrent weights, with one mask for all steps (DropConnect)",
           probability_rule());
  return model("language_model", "recurrent language model, for the task language", keys,
               [](const Keys& o, const DataInfo& data) {
                 LanguageModelOptions options = o;
                 options.vocabulary = known_or("vocabulary", o.given_vocabulary, data.words,
                                               options.vocabulary, "the text has");
                 options.softmax = word_softmaxes().make(o.given_softmax);
                 return std::make_shared<LanguageModel>(options);
               });
}

struct GptKeys : GptOptions {
  std::optional<Index> given_vocabulary;

  // Completes "heads …".
  std::string complaint() const {
    if (width % heads != 0) return fmt::format("must divide the width {}, is {}", width, heads);
    if (kv_heads > 0 && heads % kv_heads != 0)
      return fmt::format("must be a multiple of kv_heads, {}, is {}", kv_heads, heads);
    if (positions == GptPositions::rotary && width / heads % 2 != 0)
      return fmt::format(
          "must leave an even number of features a head, which rotary positions pair; {} heads of "
          "{} features have {} each",
          heads, width, width / heads);
    return "";
  }
};

ModelInfo gpt_info() {
  using Keys = GptKeys;
  Describe<Keys> keys;
  keys.key("vocabulary", &Keys::given_vocabulary, "number of tokens; inferred from the data", size_rule())
      .key("num_layers", of<Keys>(&Keys::layers), "number of blocks", {.min = 1, .max = 1024})
      .key("width", of<Keys>(&Keys::width), "features of a token", size_rule())
      .key("heads", of<Keys>(&Keys::heads), "heads of attention; must divide the width", size_rule())
      .key("kv_heads", of<Keys>(&Keys::kv_heads),
           "heads of keys and values, which groups of heads share; 0: heads", {.min = 0, .max = kMaxExtent})
      .key("context", of<Keys>(&Keys::context),
           "tokens of a text that are read at once, the default of data.steps; with learned positions also "
           "the largest number",
           size_rule())
      .key("inner", of<Keys>(&Keys::inner), "width of the perceptrons; 0: 4·width",
           {.min = 0, .max = kMaxExtent})
      .key("bias", of<Keys>(&Keys::bias), "add biases in linear layers and layer norms")
      .key("dropout", of<Keys>(&Keys::dropout),
           "dropout probability of embeddings, attention weights and branches", probability_rule())
      .key("activation", of<Keys>(&Keys::activation),
           "activation of the perceptrons; GPT-2: gelu_tanh, nanoGPT: gelu, Llama: swiglu")
      .key("norm", of<Keys>(&Keys::norm), "layer norm, or root mean square norm (Llama)")
      .key("eps", of<Keys>(&Keys::eps), "constant that norms add to variances",
           {.min = 0.0, .open_min = true})
      .key("positions", of<Keys>(&Keys::positions),
           "position encoding: learned table, rotation of queries and keys (rotary, Llama), attention scores "
           "that decrease with the distance (alibi), or none")
      .key("rotary_theta", of<Keys>(&Keys::rotary_theta), "base of the wavelengths of rotary positions",
           {.min = 1.0})
      .key("rotary_interleaved", of<Keys>(&Keys::rotary_interleaved),
           "rotate neighbouring columns (GPT-J) instead of halves of a head (Llama in Hugging Face's files)")
      .key("tied", of<Keys>(&Keys::tied), "tie the output weights to the embedding table")
      .key("residual", of<Keys>(&Keys::residual),
           "type of the sums of branches; 16bit: that of the branches in mixed precision")
      .rule("heads", [](const Keys& o) { return o.complaint(); });
  add_recompute(keys);
  return model("gpt", "decoder-only Transformer (GPT-2, Llama), for the task language", keys,
               [](const Keys& o, const DataInfo& data) {
                 GptOptions options = o;
                 options.vocabulary = known_or("vocabulary", o.given_vocabulary, data.words,
                                               options.vocabulary, "the text has");
                 return std::make_shared<Gpt>(options);
               });
}

struct TextClassifierKeys : Keys<TextClassifierOptions> {
  std::optional<Index> given_vocabulary;
};

ModelInfo text_classifier_info() {
  using Own = TextClassifierKeys;
  Describe<Own> keys;
  keys.key("vocabulary", &Own::given_vocabulary, "number of words; inferred from the data", size_rule());
  add_classes(keys)
      .key("embedding", of<Own>(&Own::embedding), "embedding size", size_rule())
      .key("units", of<Own>(&Own::units), "units of each recurrent layer in one direction", size_rule())
      .key("num_layers", of<Own>(&Own::layers), "number of stacked recurrent layers", {.min = 1, .max = 64})
      .key("cell", of<Own>(&Own::cell), "cell type")
      .key("bidirectional", of<Own>(&Own::bidirectional), "read texts in both directions")
      .key("pooling", of<Own>(&Own::pooling),
           "pooling of a text: mean of the outputs over its words, or last: the states after the last word")
      .key("dropout", of<Own>(&Own::dropout),
           "dropout probability on the input, between layers, and before the linear layer",
           probability_rule())
      .key("init", of<Own>(&Own::init),
           "above 0: the embedding starts uniform in [-init, init]; 0: normal, as in PyTorch", {.min = 0.0})
      .key("recompute", of<Own>(&Own::recompute),
           "keep every 16th state for backward and recompute the gates: less memory, more time");
  return model("text_classifier", "recurrent classifier of texts, for the task text_classification", keys,
               [](const Own& o, const DataInfo& data) {
                 TextClassifierOptions options = o;
                 options.vocabulary = known_or("vocabulary", o.given_vocabulary, data.words,
                                               options.vocabulary, "the texts have");
                 options.classes = classes_of(o.given_classes, data, options.classes);
                 return std::make_shared<TextClassifier>(options);
               });
}

// Options of translation models; the data decides these unless they are given.
template <class Of>
struct TranslationKeys : Of {
  std::optional<Index> given_source_words, given_target_words;
  std::optional<bool> given_shared;
};

template <class Of>
options::Describe<TranslationKeys<Of>> vocabulary_keys() {
  using Keys = TranslationKeys<Of>;
  options::Describe<Keys> keys;
  keys.key("source_words", &Keys::given_source_words, "source vocabulary size; inferred from the data",
           size_rule())
      .key("target_words", &Keys::given_target_words, "target vocabulary size; inferred from the data",
           size_rule());
  return keys;
}

template <class Of>
void add_tables(options::Describe<TranslationKeys<Of>>& keys) {
  using Keys = TranslationKeys<Of>;
  keys.key("shared", &Keys::given_shared,
           "share one embedding table; default: if the data has one codec for both sides")
      .key("tied", of<Keys>(&Of::tied), "tie the output weights to the target embedding");
}

template <class Of>
Of completed(const TranslationKeys<Of>& keys, const DataInfo& data) {
  Of options = keys;
  options.source_words =
      known_or("source_words", keys.given_source_words, data.words, options.source_words, "the source has");
  options.target_words = known_or("target_words", keys.given_target_words, data.target_words,
                                  options.target_words, "the target has");
  if (keys.given_shared.value_or(false) && data.words > 0 && !data.shared_words)
    throw OptionError("shared", "one table for both sides needs data with one codec for both (data.codec)");
  options.shared = keys.given_shared.value_or(data.shared_words);
  return options;
}

ModelInfo encoder_decoder_info() {
  using Keys = TranslationKeys<EncoderDecoderOptions>;
  Describe<Keys> keys = vocabulary_keys<EncoderDecoderOptions>();
  keys.key("embedding", of<Keys>(&Keys::embedding), "embedding size", size_rule())
      .key("units", of<Keys>(&Keys::units), "units of each recurrent layer, and of attention", size_rule())
      .key("encoder_layers", of<Keys>(&Keys::encoder_layers),
           "number of encoder layers: the first is bidirectional; residual connections from the third on",
           {.min = 1, .max = 64})
      .key("decoder_layers", of<Keys>(&Keys::decoder_layers),
           "number of decoder layers: the first queries attention; residual connections from the third on",
           {.min = 2, .max = 64})
      .key("attention", of<Keys>(&Keys::attention), "score function of attention")
      .key("dropout", of<Keys>(&Keys::dropout), "dropout probability on the input of each layer",
           probability_rule());
  add_tables(keys);
  keys.key("init", of<Keys>(&Keys::init),
           "above 0: weights start uniform in [-init, init]; 0: each layer as in PyTorch", {.min = 0.0})
      .key("recompute", of<Keys>(&Keys::recompute),
           "keep every 16th state for backward and recompute the gates: less memory, more time");
  return model("encoder_decoder", "LSTM encoder and decoder with attention, for the task translation", keys,
               [](const Keys& o, const DataInfo& data) {
                 return std::make_shared<EncoderDecoder>(completed(o, data));
               });
}

ModelInfo transformer_info() {
  using Keys = TranslationKeys<TransformerOptions>;
  Describe<Keys> keys = vocabulary_keys<TransformerOptions>();
  keys.key("encoder_layers", of<Keys>(&Keys::encoder_layers), "number of encoder layers",
           {.min = 1, .max = 1024})
      .key("decoder_layers", of<Keys>(&Keys::decoder_layers), "number of decoder layers",
           {.min = 1, .max = 1024})
      .key("width", of<Keys>(&Keys::width), "features of a token", size_rule())
      .key("heads", of<Keys>(&Keys::heads), "heads of attention; must divide the width", size_rule())
      .key("inner", of<Keys>(&Keys::inner), "width of the perceptrons", size_rule())
      .key("norm_first", of<Keys>(&Keys::norm_first),
           "pre-norm: a norm before each branch; false: post-norm, after the branch is added, which needs a "
           "warm-up of the learning rate")
      .key("dropout", of<Keys>(&Keys::dropout),
           "dropout probability of embeddings, attention weights and branches", probability_rule())
      .key("activation", of<Keys>(&Keys::activation), "activation of the perceptrons");
  add_recompute(keys);
  add_tables(keys);
  keys.rule("heads", [](const Keys& o) {
    return o.width % o.heads == 0 ? "" : fmt::format("must divide the width {}, is {}", o.width, o.heads);
  });
  return model(
      "transformer", "encoder–decoder Transformer, for the task translation", keys,
      [](const Keys& o, const DataInfo& data) { return std::make_shared<Transformer>(completed(o, data)); });
}

}  // namespace

std::vector<ModelInfo> sequence_models() {
  return {language_model_info(),  gpt_info(),         text_classifier_info(),
          encoder_decoder_info(), transformer_info(), bert_info()};
}

}  // namespace tandem::models
