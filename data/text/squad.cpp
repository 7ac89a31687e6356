#include "data/text/squad.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <unordered_set>

#include "core/error.h"
#include "core/options/check.h"
#include "core/printable.h"
#include "data/text/corpus.h"
#include "data/text/holdout.h"
#include "data/text/unicode.h"
#include "files/byte_order_mark.h"
#include "files/input.h"
#include "files/json_text.h"

namespace tandem::datasets {

namespace {

using Json = nlohmann::ordered_json;

constexpr files::JsonLimits kLimits{.depth = 16, .keys = 1000, .items = std::size_t{1} << 24};

std::string named(const std::string& text) { return shortened(printable(text), 60); }

// The bytes at which the characters of a text begin.
std::vector<std::size_t> places_of_characters(std::string_view text) {
  std::vector<std::size_t> places;
  for (std::size_t at = 0; at < text.size(); at += first_character(text.substr(at)).bytes)
    places.push_back(at);
  return places;
}

class SquadReader {
 public:
  SquadReader(const std::string& path, bool answered) : path_(path), answered_(answered) {}

  Questions read() {
    const std::string text = files::read_text(path_, kMaxCorpusBytes);
    require_utf8(text, path_);
    const Json file = files::parse_json<Json>(std::string(files::without_byte_order_mark(text)), path_,
                                              "the file", kLimits);
    try {
      for (const Json& article : file.at("data"))
        for (const Json& paragraph : article.at("paragraphs")) add(paragraph);
    } catch (const Json::exception& error) {
      throw UserError(path_,
                      fmt::format("{}{}; expected SQuAD's format, with data, paragraphs, context and qas",
                                  place_.empty() ? "" : place_ + ": ", files::json_reason(error)));
    }
    require(all_.size() > 0, path_, "has no question");
    return std::move(all_);
  }

 private:
  void add(const Json& paragraph) {
    place_ = fmt::format("paragraph {}", ++paragraphs_);
    all_.contexts.push_back(paragraph.at("context").get<std::string>());
    if (answered_) characters_ = places_of_characters(all_.contexts.back());
    for (const Json& qa : paragraph.at("qas")) add_question(qa);
  }

  void add_question(const Json& qa) {
    Question question{.id = qa.at("id").get<std::string>(),
                      .text = qa.at("question").get<std::string>(),
                      .context = all_.contexts.size() - 1};
    place_ = fmt::format("question \"{}\"", named(question.id));
    require(ids_.insert(question.id).second, path_, "{}: another question has this id", place_);
    if (answered_ && !qa.value("is_impossible", false)) add_answers(qa.at("answers"), question);
    all_.questions.push_back(std::move(question));
  }

  void add_answers(const Json& answers, Question& question) const {
    const std::string& context = all_.contexts.back();
    require(!answers.empty(), path_,
            "{}: has no answers; set \"is_impossible\": true if the context has none", place_);
    for (const Json& answer : answers) {
      const auto text = answer.at("text").get<std::string>();
      const auto start = answer.at("answer_start").get<std::int64_t>();
      const bool inside = start >= 0 && start < std::ssize(characters_);
      const std::size_t at = inside ? characters_[static_cast<std::size_t>(start)] : context.npos;
      require(!text.empty() && inside && context.compare(at, text.size(), text) == 0, path_,
              "{}: the context has no \"{}\" at character {}; correct \"answer_start\"", place_, named(text),
              start);
      if (question.answers.empty()) question.answer_at = at;
      question.answers.push_back(text);
    }
  }

  const std::string& path_;
  bool answered_;
  Questions all_;
  std::vector<std::size_t> characters_;  // places of those of the last context
  std::size_t paragraphs_ = 0;
  std::string place_;  // for messages
  std::unordered_set<std::string> ids_;
};

// The questions of some contexts.
Questions questions_of(const Questions& all, Range contexts) {
  Questions some;
  const auto at = [](std::size_t i) { return static_cast<std::ptrdiff_t>(i); };
  some.contexts.assign(all.contexts.begin() + at(contexts.first), all.contexts.begin() + at(contexts.last));
  for (const Question& question : all.questions) {
    if (question.context < contexts.first || question.context >= contexts.last) continue;
    some.questions.push_back(question);
    some.questions.back().context -= contexts.first;
  }
  return some;
}

// Moves the last contexts to a part of their own.
Questions set_aside_contexts(Questions& train, std::size_t all, double fraction, const std::string& path,
                             std::string_view key) {
  std::vector<std::size_t> left(train.contexts.size());
  const std::size_t count = set_aside(left, all, fraction, path, key, "contexts").size();
  const std::size_t first = train.contexts.size() - count;
  Questions taken = questions_of(train, {first, first + count});
  train = questions_of(train, {0, first});
  return taken;
}

}  // namespace

Questions read_squad(const std::string& path, bool answered) { return SquadReader(path, answered).read(); }

const options::Schema& SquadOptions::schema() {
  static const options::Schema schema =
      options::Describe<SquadOptions>()
          .key("train", &SquadOptions::train,
               "training questions, a JSON file in the format of SQuAD 1.1 or 2.0", {.required = true})
          .key("test", &SquadOptions::test, "test questions; null: split off from the training contexts")
          .key("validation", &SquadOptions::validation,
               "validation questions; null: split off from the training contexts, or the test questions")
          .key("test_fraction", &SquadOptions::test_fraction,
               "share of the training contexts, at the end, kept for testing, if there is no such file",
               {.min = 0.0, .max = 1.0, .open_min = true, .open_max = true})
          .key("validation_fraction", &SquadOptions::validation_fraction,
               "the same for validation; 0: use the test questions",
               {.min = 0.0, .max = 1.0, .open_max = true});
  return schema;
}

QuestionParts read_squad_files(const SquadOptions& files) {
  options::require_sound("squad", SquadOptions::schema(), &files);
  QuestionParts parts{.train = read_squad(files.train), .validation = {}, .test = {}};
  const std::size_t all = parts.train.contexts.size();
  parts.test = files.test
                   ? read_squad(*files.test)
                   : set_aside_contexts(parts.train, all, files.test_fraction, files.train, "test_fraction");
  parts.validation = files.validation ? read_squad(*files.validation)
                                      : set_aside_contexts(parts.train, all, files.validation_fraction,
                                                           files.train, "validation_fraction");
  return parts;
}

QuestionRegistry::Entry squad_entry() {
  return QuestionRegistry::entry<SquadOptions>(
      "squad", "questions and contexts from files in the format of SQuAD 1.1 or 2.0", SquadOptions::schema(),
      [](const SquadOptions& files) { return read_squad_files(files); });
}

}  // namespace tandem::datasets
