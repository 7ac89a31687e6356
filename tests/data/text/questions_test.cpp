// Questions: files in the format of SQuAD, windows of contexts and places of pieces against the library
// tokenizers (tests/golden/answers.py), batches.
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/loader.h"
#include "data/text/question_windows.h"
#include "data/text/squad.h"
#include "tests/data/divided.h"
#include "tests/data/files.h"
#include "tests/data/text/support.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

using namespace tandem;
using namespace tandem::test;

using datasets::EncodedQuestions;
using datasets::QuestionWindow;
using datasets::testing::TempFolder;
using Json = nlohmann::json;

namespace {

constexpr datasets::WindowMarks kWindowTestMarks{.begin = 2, .end = 3, .padding = 0};

const Json& golden_answers() {
  static const Json file = Json::parse(std::ifstream(source_path("tests/golden/answers.json")));
  return file;
}

datasets::TextCodecPtr wordpiece() {
  return datasets::recall_codec(
      {{"name", "wordpiece"}, {"lower_case", true}, {"pieces", golden_answers().at("pieces")}}, "the test");
}

EncodedQuestions encoded(const std::string& context, const std::string& question,
                         const std::vector<std::string>& answers = {}, std::size_t at = 0) {
  return datasets::encode_questions(
      {.contexts = {context},
       .questions = {{.id = "q", .text = question, .context = 0, .answers = answers, .answer_at = at}}},
      *wordpiece());
}

std::string write_json(const TempFolder& folder, const Json& file, const std::string& name = "squad.json") {
  const std::string text = file.dump();
  datasets::testing::write_file(folder / name, {text.begin(), text.end()});
  return (folder / name).string();
}

Json one_question(const Json& change = Json::object()) {
  Json question{{"id", "5"}, {"question", "Who?"}, {"answers", {{{"text", "Ärzte"}, {"answer_start", 4}}}}};
  question.merge_patch(change);
  return {{"data", {{{"paragraphs", {{{"context", "Öl: Ärzte"}, {"qas", {question}}}}}}}}};
}

}  // namespace

TEST_CASE("windows of a context are those of the library tokenizers", "[questions]") {
  for (const Json& one : golden_answers().at("windows")) {
    CAPTURE(one.at("question").dump());
    const auto context = one.at("context").get<std::string>();
    const EncodedQuestions questions = encoded(context, one.at("question").get<std::string>());
    std::vector<QuestionWindow> windows;
    datasets::add_windows(questions, 0,
                          {.longest = one.at("longest").get<Index>(),
                           .max_question = one.at("max_question").get<Index>(),
                           .stride = one.at("stride").get<Index>()},
                          windows);
    REQUIRE(windows.size() == one.at("windows").size());
    // Places there count characters.
    std::vector<std::size_t> bytes;
    for (std::size_t i = 0; i < context.size(); ++i)
      if ((static_cast<unsigned char>(context[i]) & 0xC0) != 0x80) bytes.push_back(i);
    bytes.push_back(context.size());
    std::size_t central = 0;
    for (std::size_t w = 0; w < windows.size(); ++w) {
      const Json& expected = one.at("windows")[w];
      std::vector<std::int64_t> tokens(static_cast<std::size_t>(windows[w].length())),
          segments(tokens.size());
      datasets::write_window(questions, windows[w], kWindowTestMarks, tokens.data(), segments.data());
      CHECK(tokens == expected.at("ids").get<std::vector<std::int64_t>>());
      CHECK(segments == expected.at("segments").get<std::vector<std::int64_t>>());
      const Json& places = expected.at("places");
      REQUIRE(windows[w].pieces.count() == places.size());
      for (std::size_t i = 0; i < places.size(); ++i)
        CHECK(questions.context_pieces[0].places[windows[w].pieces.first + i] ==
              Range{bytes.at(places[i][0].get<std::size_t>()), bytes.at(places[i][1].get<std::size_t>())});
      // The central parts follow each other and cover the context.
      if (windows[w].central.count() == 0) continue;
      CHECK(windows[w].central.first == central);
      central = windows[w].central.last;
    }
    CHECK(central == questions.context_pieces[0].ids.size());
  }
}

TEST_CASE("a piece is central where its window has the most context", "[questions]") {
  std::string context;
  for (int i = 0; i < 20; ++i) context += "town ";
  const EncodedQuestions questions = encoded(context, "town");
  std::vector<QuestionWindow> windows;
  datasets::add_windows(questions, 0, {.longest = 12, .stride = 4}, windows);
  REQUIRE(windows.size() == 4);  // 8 pieces each
  const std::vector<Range> central{{0, 6}, {6, 10}, {10, 14}, {14, 20}};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(windows[i].pieces == Range{4 * i, 4 * i + 8});
    CHECK(windows[i].central == central[i]);
  }
  CHECK_FAILS(UserError, datasets::add_windows(questions, 0, {.longest = 4}, windows),
              "have no room for a context");
}

TEST_CASE("an answer is marked where a window has all of it", "[questions]") {
  const std::string context = "the town lies on Épernay's river Marne";
  const EncodedQuestions questions = encoded(context, "where ?", {"Épernay's river"}, 17);
  std::vector<QuestionWindow> windows;
  datasets::add_windows(questions, 0, {.longest = 12, .stride = 3}, windows);
  // the town lies on ep ##ern ##ay ' [UNK] river mar ##ne: the answer has pieces 4 to 9.
  REQUIRE(questions.context_pieces[0].ids.size() == 12);
  REQUIRE(windows.size() == 3);  // from pieces 0, 3 and 6, 7 each
  CHECK((windows[0].start == 0 && windows[0].end == 0));
  CHECK((windows[1].start == 4 + 1 && windows[1].end == 4 + 6));
  CHECK((windows[2].start == 0 && windows[2].end == 0));
  const auto& places = questions.context_pieces[0].places;
  CHECK(context.substr(places[4].first, places[9].last - places[4].first) == "Épernay's river");
  const EncodedQuestions within = encoded(context, "where ?", {"perna"}, 19);
  datasets::add_windows(within, 0, {.longest = 40}, windows);
  CHECK((windows.back().start == 4 + 4 && windows.back().end == 4 + 6));  // the pieces around it
}

TEST_CASE("pieces keep what basic tokenization drops from a text", "[questions]") {
  const std::string text = "e\u0301p\u00adern  日ǅ";
  const datasets::PlacedText placed = datasets::encode_with_places(*wordpiece(), text);
  std::vector<std::string> parts;
  for (const Range place : placed.places) parts.push_back(text.substr(place.first, place.last - place.first));
  CHECK(parts == std::vector<std::string>{"e\u0301p", "ern", "日", "ǅ"});
  CHECK(placed.ids == wordpiece()->encode(text).ids);
  CHECK(placed.unknown == 1);
}

TEST_CASE("files in the format of SQuAD", "[questions]") {
  const TempFolder folder;
  const datasets::Questions read = datasets::read_squad(write_json(folder, one_question()));
  REQUIRE(read.size() == 1);
  CHECK(read.contexts == std::vector<std::string>{"Öl: Ärzte"});
  CHECK(read.questions[0].answer_at == 5);
  CHECK(read.questions[0].answers == std::vector<std::string>{"Ärzte"});
  const Json none{{"is_impossible", true}, {"answers", Json::array()}};
  CHECK(datasets::read_squad(write_json(folder, one_question(none))).questions[0].answers.empty());
  const Json unlabelled{{"answers", nullptr}};
  CHECK(datasets::read_squad(write_json(folder, one_question(unlabelled)), false).size() == 1);

  const auto refused = [&](const Json& file, const char* why) {
    CHECK_FAILS(UserError, datasets::read_squad(write_json(folder, file)), why);
  };
  refused(one_question(unlabelled), "question \"5\": key 'answers' not found; expected SQuAD's format");
  refused(one_question({{"answers", Json::array()}}), "has no answers; set \"is_impossible\": true");
  for (const int start : {-1, 3, 5, 9, 100})
    refused(one_question({{"answers", {{{"text", "Ärzte"}, {"answer_start", start}}}}}),
            "the context has no \"Ärzte\" at character");
  Json twice = one_question();
  Json& questions = twice["data"][0]["paragraphs"][0]["qas"];
  questions.push_back(questions[0]);
  refused(twice, "another question has this id");
  refused({{"data", Json::array()}}, "has no question");
  refused({{"articles", 1}}, "key 'data' not found; expected SQuAD's format");
  CHECK_FAILS(UserError, datasets::read_squad((folder / "none.json").string()), "none.json");
}

TEST_CASE("parts of questions without files of their own are contexts at the end", "[questions]") {
  Json file{{"data", {{{"paragraphs", Json::array()}}}}};
  for (int c = 0; c < 10; ++c) {
    const std::string name = std::to_string(c);
    file["data"][0]["paragraphs"].push_back(
        {{"context", "town " + name},
         {"qas", {{{"id", name}, {"question", "?"}, {"answers", {{{"text", name}, {"answer_start", 5}}}}}}}});
  }
  const TempFolder folder;
  const datasets::QuestionParts parts = datasets::read_squad_files(
      {.train = write_json(folder, file), .test_fraction = 0.2, .validation_fraction = 0.1});
  const auto contexts = [](const datasets::Questions& part) {
    std::string names;
    for (const datasets::Question& question : part.questions) {
      CHECK(part.contexts[question.context] == "town " + question.id);
      names += question.id;
    }
    return names;
  };
  CHECK(contexts(parts.train) == "0123456");
  CHECK(contexts(parts.validation) == "7");
  CHECK(contexts(parts.test) == "89");
  CHECK_FAILS(UserError, datasets::read_squad_files({.train = write_json(folder, one_question())}),
              "test_fraction of 0.1 of its 1 contexts leaves it without any");
}

TEST_CASE("a batch has the windows of its questions", "[questions]") {
  EncodedQuestions questions =
      encoded("the town lies on the river Marne and its cellars keep wine", "what ?", {"Marne"}, 27);
  for (const char* const context : {"wine", "bottles of wine", "the town keep wine since 1743"}) {
    const EncodedQuestions more = encoded(context, "where does the town lie ?");
    questions.contexts.push_back(more.contexts[0]);
    questions.context_pieces.push_back(more.context_pieces[0]);
    questions.piece_lists.push_back(more.piece_lists[0]);
    questions.questions.push_back(more.questions[0]);
    questions.questions.back().context = questions.contexts.size() - 1;
  }
  const auto windows = std::make_shared<const datasets::QuestionWindows>(datasets::windows_of(
      std::make_shared<const EncodedQuestions>(questions), {.longest = 14, .stride = 4}, 100));
  const auto source = std::make_shared<datasets::QuestionSource>(
      windows, windows->size(), kWindowTestMarks,
      datasets::BucketOptions{.sentences = 2, .seed = 3, .grid = 2});
  datasets::Loader loader(source);
  Index seen = 0, answered = 0;
  while (const auto batch = loader.next()) {
    const Index rows = (*batch)["tokens"].size(0), steps = (*batch)["tokens"].size(1);
    for (Index n = 0; n < rows; ++n) {
      const auto at = static_cast<std::size_t>(n);
      const QuestionWindow& window =
          windows->windows.at(static_cast<std::size_t>(numbers(*batch, "window")[at] - 100));
      std::vector<std::int64_t> tokens(static_cast<std::size_t>(steps), 0), segments(tokens);
      datasets::write_window(questions, window, kWindowTestMarks, tokens.data(), segments.data());
      CHECK((*batch)["tokens"].rows(n, 1).to_vector<std::int64_t>() == tokens);
      CHECK((*batch)["segments"].rows(n, 1).to_vector<std::int64_t>() == segments);
      const auto mask = (*batch)["mask"].rows(n, 1).to_vector<float>();
      for (Index t = 0; t < steps; ++t)
        CHECK(mask[static_cast<std::size_t>(t)] == (t < window.length() ? 0.0F : datasets::kPaddingScore));
      CHECK(numbers(*batch, "lengths")[at] == window.length());
      CHECK(numbers(*batch, "start")[at] == window.start);
      CHECK(numbers(*batch, "end")[at] == window.end);
      answered += window.start > 0;
    }
    seen += rows;
  }
  CHECK(seen == windows->size());
  CHECK(answered > 0);
  check_divided(source, [](const std::string&) { return 0; });
}
