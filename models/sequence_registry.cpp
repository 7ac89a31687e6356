#include "models/sequence_registry.h"

#include "models/encoder_decoder.h"
#include "models/language_model.h"
#include "models/registry_keys.h"
#include "models/text_classifier.h"

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
  keys.key("vocabulary", &Keys::given_vocabulary, "words; found from the data", size_rule())
      .key("embedding", of<Keys>(&Keys::embedding), "numbers that stand for a word", size_rule())
      .key("units", of<Keys>(&Keys::units), "of each layer of cells", size_rule())
      .key("num_layers", of<Keys>(&Keys::layers), "of cells, one above the other", {.min = 1, .max = 64})
      .key("cell", of<Keys>(&Keys::cell), "what the layers are made of")
      .key("projection", of<Keys>(&Keys::projection), "outputs of a layer of lstm; 0: as many as units",
           {.min = 0, .max = kMaxExtent})
      .key("dropout", of<Keys>(&Keys::dropout),
           "probability of a zero in what goes into the cells, from layer to layer, and out",
           probability_rule())
      .key("tied", of<Keys>(&Keys::tied), "the output's weights are the table of the embedding")
      .key("init", of<Keys>(&Keys::init),
           "above 0: weights start uniform between -init and init, biases at 0; 0: each layer as in PyTorch",
           {.min = 0.0})
      .key("recompute", of<Keys>(&Keys::recompute),
           "keep every 16th state for the backward pass and compute the gates anew: less memory, more work")
      .key("softmax", &Keys::given_softmax, "how the output gives probabilities of words")
      .key("last_units", of<Keys>(&Keys::last_units),
           "of the last layer, as tied weights want as many as the embedding has; 0: as many as units",
           {.min = 0, .max = kMaxExtent})
      .key("input_dropout", of<Keys>(&Keys::input_dropout),
           "probability of a zero in what goes into the cells; auto: dropout", dropout_rule())
      .key("output_dropout", of<Keys>(&Keys::output_dropout),
           "probability of a zero in what comes out of the cells; auto: dropout", dropout_rule())
      .key("locked_dropout", of<Keys>(&Keys::locked_dropout),
           "what is dropped is dropped at every step of a batch (variational dropout)")
      .key("word_dropout", of<Keys>(&Keys::word_dropout),
           "probability that a word of the vocabulary reads as zeros in all of a batch", probability_rule())
      .key("weight_dropout", of<Keys>(&Keys::weight_dropout),
           "probability of a zero in the weights of what recurs, the same at every step (DropConnect)",
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

struct TextClassifierKeys : Keys<TextClassifierOptions> {
  std::optional<Index> given_vocabulary;
};

ModelInfo text_classifier_info() {
  using Own = TextClassifierKeys;
  Describe<Own> keys;
  keys.key("vocabulary", &Own::given_vocabulary, "words; found from the data", size_rule());
  add_classes(keys)
      .key("embedding", of<Own>(&Own::embedding), "numbers that stand for a word", size_rule())
      .key("units", of<Own>(&Own::units), "of each layer of cells in one direction", size_rule())
      .key("num_layers", of<Own>(&Own::layers), "of cells, one above the other", {.min = 1, .max = 64})
      .key("cell", of<Own>(&Own::cell), "what the layers are made of")
      .key("bidirectional", of<Own>(&Own::bidirectional), "texts are read backwards, too")
      .key("pooling", of<Own>(&Own::pooling),
           "what stands for a text: the mean of the outputs over its words, or the states after the last one")
      .key("dropout", of<Own>(&Own::dropout),
           "probability of a zero in what goes into the cells, from layer to layer, and into the last layer",
           probability_rule())
      .key("init", of<Own>(&Own::init),
           "above 0: the table of words starts uniform between -init and init; 0: normal, as in PyTorch",
           {.min = 0.0})
      .key("recompute", of<Own>(&Own::recompute),
           "keep every 16th state for the backward pass and compute the gates anew: less memory, more work");
  return model("text_classifier", "recurrent classifier of texts, for the task text_classification", keys,
               [](const Own& o, const DataInfo& data) {
                 TextClassifierOptions options = o;
                 options.vocabulary = known_or("vocabulary", o.given_vocabulary, data.words,
                                               options.vocabulary, "the texts have");
                 options.classes = classes_of(o.given_classes, data, options.classes);
                 return std::make_shared<TextClassifier>(options);
               });
}

struct EncoderDecoderKeys : EncoderDecoderOptions {
  std::optional<Index> given_source_words, given_target_words;
  std::optional<bool> given_shared;
};

std::shared_ptr<EncoderDecoder> make_encoder_decoder(const EncoderDecoderKeys& keys, const DataInfo& data) {
  EncoderDecoderOptions options = keys;
  options.source_words =
      known_or("source_words", keys.given_source_words, data.words, options.source_words, "the source has");
  options.target_words = known_or("target_words", keys.given_target_words, data.target_words,
                                  options.target_words, "the target has");
  if (keys.given_shared.value_or(false) && data.words > 0 && !data.shared_words)
    throw OptionError("shared", "one table for both sides needs data with one codec for both (data.codec)");
  options.shared = keys.given_shared.value_or(data.shared_words);
  return std::make_shared<EncoderDecoder>(options);
}

ModelInfo encoder_decoder_info() {
  using Keys = EncoderDecoderKeys;
  Describe<Keys> keys;
  keys.key("source_words", &Keys::given_source_words, "words to read; found from the data", size_rule())
      .key("target_words", &Keys::given_target_words, "words to write; found from the data", size_rule())
      .key("embedding", of<Keys>(&Keys::embedding), "numbers that stand for a word", size_rule())
      .key("units", of<Keys>(&Keys::units), "of each layer of cells, and of attention", size_rule())
      .key("encoder_layers", of<Keys>(&Keys::encoder_layers),
           "the first reads in both directions; from the third on with residual connections",
           {.min = 1, .max = 64})
      .key("decoder_layers", of<Keys>(&Keys::decoder_layers),
           "the first one's output asks the encoder; from the third on with residual connections",
           {.min = 2, .max = 64})
      .key("attention", of<Keys>(&Keys::attention), "how well a word of the source answers")
      .key("dropout", of<Keys>(&Keys::dropout), "probability of a zero in what goes into each layer",
           probability_rule())
      .key("shared", &Keys::given_shared,
           "one table for the words of both sides; unless given, where the data has one codec for both")
      .key("tied", of<Keys>(&Keys::tied), "the output's weights are the table of the words to write")
      .key("init", of<Keys>(&Keys::init),
           "above 0: weights start uniform between -init and init; 0: each layer as in PyTorch", {.min = 0.0})
      .key("recompute", of<Keys>(&Keys::recompute),
           "keep every 16th state for the backward pass and compute the gates anew: less memory, more work");
  return model("encoder_decoder", "LSTM encoder and decoder with attention, for the task translation", keys,
               make_encoder_decoder);
}

}  // namespace

std::vector<ModelInfo> sequence_models() {
  return {language_model_info(), text_classifier_info(), encoder_decoder_info()};
}

}  // namespace tandem::models
