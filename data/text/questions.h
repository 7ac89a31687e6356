// Questions about contexts, whose answers are parts of them, as in SQuAD (Rajpurkar et al., 2016 and 2018).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/text/wordpiece.h"

namespace tandem::datasets {

struct Question {
  std::string id, text;
  std::size_t context = 0;             // index
  std::vector<std::string> answers{};  // accepted ones; none if the context does not answer the question
  std::size_t answer_at = 0;           // first byte of the first answer in the context
};

struct Questions {
  std::vector<std::string> contexts;
  std::vector<Question> questions;

  Index size() const { return static_cast<Index>(questions.size()); }
  // Bytes of the first answer in the context.
  Range answer_of(const Question& question) const {
    return {question.answer_at, question.answer_at + question.answers.front().size()};
  }
};

struct QuestionParts {
  Questions train, validation, test;  // validation may be empty
  std::vector<std::string> notes{};   // messages for the user
};

// Sets of questions by name: "squad" (data/text/squad.h), and those of extensions. There is no default.
using QuestionRegistry = options::Registry<QuestionParts()>;
QuestionRegistry& question_sets();

// Questions in pieces of a codec.
struct EncodedQuestions : Questions {
  std::vector<PlacedText> context_pieces;              // by context
  std::vector<std::vector<std::int32_t>> piece_lists;  // by question
  Index unknown = 0, pieces = 0;                       // of the contexts
};
// Throws UserError for a context without a piece.
EncodedQuestions encode_questions(Questions questions, const TextCodec& codec);

struct QuestionCorpus {
  TextCodecPtr codec;
  EncodedQuestions train, validation, test;
  std::vector<std::string> notes;
};

// The codec is `known`, or made from the contexts and questions of the training part. `where` names the set
// in messages. Throws UserError as codecs do, and unless there are training and test questions.
QuestionCorpus make_question_corpus(QuestionParts parts, const CodecChoice& choice, TextCodecPtr known,
                                    const std::string& where);

}  // namespace tandem::datasets
