// Pages of LibreOffice's help: their paragraphs, and the pairs of two languages.
#include "samples/help_page.h"

#include "samples/office_help.h"
#include "tests/data/files.h"
#include "tests/support/errors.h"

using namespace tandem;
using namespace tandem::test;

using datasets::help_paragraphs;
using datasets::HelpParagraph;
using datasets::PairTexts;
using datasets::testing::TempFolder;

namespace {

std::string text_of(const std::vector<HelpParagraph>& paragraphs) {
  std::string text;
  for (const HelpParagraph& paragraph : paragraphs) text += paragraph.id + "=" + paragraph.text + ";";
  return text;
}

std::string read(std::string_view html) { return text_of(help_paragraphs(html)); }

// Pages by path below the folder: text/p0.html is for training, the two others for validation and test.
constexpr const char *kTrain = "text/p0.html", *kValidation = "text/p8.html", *kTest = "text/p22.html";

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  datasets::testing::write_file(path, {text.begin(), text.end()});
}

std::string page(const std::vector<std::pair<std::string, std::string>>& paragraphs) {
  std::string text = "<html><body>";
  for (const auto& [id, line] : paragraphs) text += "<p id=\"" + id + "\">" + line + "</p>\n";
  return text + "</body></html>";
}

}  // namespace

TEST_CASE("paragraphs and headings with an id, without markup", "[pairs]") {
  CHECK(read("<h1 id=\"hd_1\" dir=\"auto\">\n<a name=\"x\"></a>A title</h1><p id=\"par_2\">See <span "
             "class=\"emph\">"
             "this</span>,\n  and&#160;that.<br>End</p><p>none</p><div id=\"d\">none</div>") ==
        "hd_1=A title;par_2=See this, and that. End;");
  CHECK(read("<p id='a'>x</p><p id=b>y</p><p id=\"\">n</p><p id=\"e\"> </p><p id=\"a\">again</p>") ==
        "a=x;b=y;");
  CHECK(read("<p id=\"a\">1 &lt; 2 &amp;amp; &gt; &#65;&#x42; &quot;&apos; &copy; &; & &#0; &#xD800; "
             "&#x110000;</p>") == "a=1 < 2 &amp; > AB \"' &copy; &; & &#0; &#xD800; &#x110000;;");
  CHECK(read("<p id=\"a\">&#228;&#x20AC;&#128512;</p>") == "a=\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80;");
  CHECK(read("<p id=\"a\">x<!-- <b> --> y<img src=\"a>b\"> z</p>") == "a=x y z;");
  CHECK(read("<script>var s = '<p id=\"no\">no</p>';</script><p id=\"a\">1 < 2</p>") == "a=1 < 2;");
}

TEST_CASE("of alternatives by system and module one is read, not the Mac's", "[pairs]") {
  const std::string sys =
      "<span id=\"s\" class=\"switchinline\"><span hidden=\"true\" class=\"MAC\"><span>Mac</span>"
      "</span><span hidden=\"true\" id=\"d\"><span class=\"emph\">Tools</span></span></span>";
  CHECK(read("<p id=\"a\">Choose " + sys + " - Options.</p>") == "a=Choose Tools - Options.;");
  CHECK(read("<p id=\"a\">The <span class=\"switch\"><span hidden=\"true\" class=\"WRITER\">text</span><span "
             "hidden=\"true\" class=\"CALC\">sheet</span></span> <span hidden=\"true\">is</span></p>") ==
        "a=The text is;");
  CHECK(read("<p id=\"a\"><span class=\"switch\"><span hidden=\"true\" "
             "class=\"MAC\">x</span></span></span>y</p>") == "a=y;");
}

TEST_CASE("pages that end anywhere", "[pairs]") {
  const std::string whole =
      "<p id=\"a\" class='b'>x &#65; <!-- c --><span class=\"switch\">y</span></p><p id=\"b\">z";
  for (std::size_t size = 0; size <= whole.size(); ++size)
    CHECK(help_paragraphs(whole.substr(0, size)).size() <= 2);
  CHECK(read(whole) == "a=x A y;b=z;");
}

TEST_CASE("paragraphs of two languages are joined by their ids, parts by page", "[pairs]") {
  const TempFolder folder;
  const std::filesystem::path home = folder / "help";
  write(home / "de" / kTrain,
        page({{"1", "Haus"}, {"2", "Syntax"}, {"3", "Name"}, {"4", "nur hier"}, {"6", "Haus"}}));
  write(home / "en-US" / kTrain,
        page({{"6", "home"}, {"3", "Name"}, {"2", "syntax"}, {"1", "house"}, {"5", "-"}}));
  write(home / "de" / kValidation, page({{"1", "Syntax"}, {"2", "Baum"}, {"3", "Baum"}}));
  write(home / "en-US" / kValidation, page({{"1", "syntax"}, {"2", "tree"}, {"3", "tree"}}));
  write(home / "de" / kTest, page({{"1", "Baum"}, {"2", "Haus"}}));
  write(home / "en-US" / kTest, page({{"1", "tree"}, {"2", "building"}}));
  write(home / "de" / "text/only.html", page({{"1", "x"}}));
  const PairTexts texts = datasets::read_office_help({.path = home.string()});
  REQUIRE(texts.train.size() == 2);
  CHECK(texts.train[0].source == "Haus");
  CHECK(texts.train[0].targets == std::vector<std::string>{"house", "home"});
  CHECK(texts.train[1].source == "Syntax");
  REQUIRE(texts.validation.size() == 1);
  CHECK(texts.validation[0].source == "Baum");
  CHECK(texts.validation[0].targets == std::vector<std::string>{"tree"});
  REQUIRE(texts.test.size() == 1);
  CHECK(texts.test[0].source == "Baum");
  REQUIRE(texts.notes.size() == 1);
  CHECK(texts.notes[0] ==
        "2 paragraphs of validation and test pages are left out: training pages have them, too");
}

TEST_CASE("help that is not there or cannot be used is said", "[pairs]") {
  const TempFolder folder;
  const std::filesystem::path home = folder / "help";
  write(home / "de" / kTrain, page({{"1", "Haus"}}));
  const auto read = [&](const std::string& source, const std::string& target) {
    return datasets::read_office_help({.path = home.string(), .source = source, .target = target});
  };
  CHECK_FAILS(UserError, read("de", "en-US"), "install it with `apt install libreoffice-help-en-us`");
  CHECK_FAILS(UserError, read("fr", "de"), "install it with `apt install libreoffice-help-fr`");
  CHECK_FAILS(UserError, read("de", "de"), "must differ from the source language");
  write(home / "en-US" / kTrain, page({{"1", "house"}}));
  CHECK_FAILS(UserError, read("de", "en-US"), "have 1 paragraphs in common for training, 0 for validation");
  write(home / "en-US" / kTrain, page({{"1", "h\xFFuse"}}));
  CHECK_FAILS(UserError, read("de", "en-US"), "p0.html] byte 24 is 0xff");
}
