#include "data/text/questions.h"

#include "core/error.h"
#include "core/printable.h"
#include "data/text/squad.h"

namespace tandem::datasets {

QuestionRegistry& question_sets() {
  static QuestionRegistry registry({.what = "set of questions", .help = "the questions and contexts"},
                                   {squad_entry});
  return registry;
}

EncodedQuestions encode_questions(Questions questions, const TextCodec& codec) {
  EncodedQuestions encoded;
  static_cast<Questions&>(encoded) = std::move(questions);
  for (const std::string& context : encoded.contexts) {
    encoded.context_pieces.push_back(encode_with_places(codec, context));
    const PlacedText& pieces = encoded.context_pieces.back();
    require(!pieces.ids.empty(), "", "the context \"{}\" has no piece of the codec; remove it",
            shortened(printable(context), 60));
    encoded.unknown += pieces.unknown;
    encoded.pieces += static_cast<Index>(pieces.ids.size());
  }
  for (const Question& question : encoded.questions)
    encoded.piece_lists.push_back(codec.encode(question.text).ids);
  return encoded;
}

QuestionCorpus make_question_corpus(QuestionParts parts, const CodecChoice& choice, TextCodecPtr known,
                                    const std::string& where) {
  require(parts.train.size() > 0 && parts.test.size() > 0, where,
          "has {} questions for training and {} for test; each part needs at least one", parts.train.size(),
          parts.test.size());
  QuestionCorpus corpus;
  corpus.codec = std::move(known);
  if (!corpus.codec) {
    std::vector<std::string_view> texts(parts.train.contexts.begin(), parts.train.contexts.end());
    for (const Question& question : parts.train.questions) texts.push_back(question.text);
    corpus.codec = codecs().make(choice, {texts, where});
  }
  corpus.train = encode_questions(std::move(parts.train), *corpus.codec);
  corpus.validation = encode_questions(std::move(parts.validation), *corpus.codec);
  corpus.test = encode_questions(std::move(parts.test), *corpus.codec);
  corpus.notes = std::move(parts.notes);
  return corpus;
}

}  // namespace tandem::datasets
