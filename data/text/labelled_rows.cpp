#include "data/text/labelled_rows.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "core/error.h"
#include "core/printable.h"
#include "data/text/corpus.h"
#include "data/text/text_lines.h"
#include "data/text/unicode.h"
#include "files/csv_read.h"
#include "files/input.h"
#include "files/json_text.h"
#include "files/not_there.h"

namespace tandem::datasets {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 12> kLabelNames{"label",  "labels",  "class",     "category",
                                                       "target", "y",       "sentiment", "intent",
                                                       "topic",  "section", "tag",       "emotion"};
constexpr std::array<std::string_view, 16> kTextNames{
    "text",  "texts", "sentence", "review",      "content",  "comment",  "message",   "body",
    "title", "tweet", "document", "description", "headline", "question", "utterance", "x"};

constexpr files::JsonLimits kOfLine{.depth = 16, .keys = 1000, .items = std::size_t{1} << 20};

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

std::string at_line(const std::string& path, Index line) { return fmt::format("{}:{}", path, line); }

// Index of the given column, or of the first usual name.
std::optional<std::size_t> column_of(const std::vector<std::string>& names,
                                     const std::optional<std::string>& given,
                                     std::span<const std::string_view> usual) {
  const auto place_of = [&](auto&& same) -> std::optional<std::size_t> {
    const auto found = std::ranges::find_if(names, same);
    if (found == names.end()) return std::nullopt;
    return static_cast<std::size_t>(found - names.begin());
  };
  if (given) return place_of([&](const std::string& name) { return name == *given; });
  for (const std::string_view each : usual)
    if (const auto place = place_of([&](const std::string& name) { return lower_case(name) == each; }))
      return place;
  return std::nullopt;
}

void add(LabelledRows& to, std::string label, std::string text, std::string place) {
  require(!is_blank(label), place, "has no label");
  require(!is_blank(text), place, "has no text after the label \"{}\"; complete or remove the line",
          printable(label));
  to.rows.push_back({std::move(label), std::move(text), std::move(place)});
}

// Rows of fields, with or without a header.
class Table {
 public:
  Table(const std::string& path, const LabelledColumns& columns, std::string_view separated)
      : path_(path), columns_(columns), separated_(separated) {}

  void row(std::vector<std::string> fields, Index line) {
    const std::string place = at_line(path_, line);
    require(fields.size() > 1, place, "has no {}, expected one between a label and a text", separated_);
    if (width_ == 0 && begin(fields, place)) return;
    require(fields.size() == width_, place,
            "has {} columns, the first line has {}; columns are separated by {}", fields.size(), width_,
            separated_);
    for (const std::string& field : fields)
      require(static_cast<Index>(field.size()) <= columns_.max_line, place,
              "a text of {} bytes, at most {} are allowed (max_line)", field.size(), columns_.max_line);
    add(read_, std::move(fields[label_]), std::move(fields[text_]), place);
  }
  LabelledRows take() {
    require(!read_.rows.empty(), path_, "has no row below its header");
    return std::move(read_);
  }

 private:
  // True if the first row is a header.
  bool begin(const std::vector<std::string>& fields, const std::string& place) {
    const auto label = column_of(fields, columns_.label, kLabelNames),
               text = column_of(fields, columns_.text, kTextNames);
    width_ = fields.size();
    if (label && text && label != text) {
      label_ = *label;
      text_ = *text;
      return true;
    }
    require(!columns_.label && !columns_.text, place,
            "is no header with the columns \"{}\" and \"{}\" (label_column, text_column); it has {}",
            columns_.label.value_or("label"), columns_.text.value_or("text"), fmt::join(fields, ", "));
    require(fields.size() == 2, place,
            "has {} columns and names none of them as label and text; without a header, a line is a label, a "
            "{}, and a text; with a header, name the columns in label_column and text_column",
            fields.size(), separated_);
    return false;
  }

  const std::string& path_;
  const LabelledColumns& columns_;
  std::string_view separated_;
  std::size_t width_ = 0, label_ = 0, text_ = 1;
  LabelledRows read_;
};

std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields;
  for (;;) {
    const std::size_t tab = line.find('\t');
    fields.emplace_back(line.substr(0, tab));
    if (tab == std::string_view::npos) return fields;
    line.remove_prefix(tab + 1);
  }
}

LabelledRows read_lines(const std::string& path, const LabelledColumns& columns) {
  const std::string contents = files::read_text_of_data(path, kMaxCorpusBytes);
  Table table(path, columns, "tab");
  Index number = 0;
  for (const std::string_view line : lines_of(contents, path, columns.max_line)) {
    require(!is_blank(line), at_line(path, ++number), "is empty; remove the line");
    table.row(fields_of(line), number);
  }
  return table.take();
}

LabelledRows read_csv(const std::string& path, const LabelledColumns& columns) {
  const std::string contents = files::read_text_of_data(path, kMaxCorpusBytes);
  require(!is_blank(contents), path, "is empty");
  files::CsvReader reader(contents, path);
  Table table(path, columns, "comma");
  for (std::vector<std::string> fields; reader.next(fields);) {
    for (const std::string& field : fields) require_utf8(field, at_line(path, reader.line()));
    table.row(fields, reader.line());
  }
  return table.take();
}

// Labels may also be integers or booleans.
std::string text_in(const nlohmann::json& object, const std::optional<std::string>& given,
                    std::span<const std::string_view> usual, const char* what, const std::string& place) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  const auto column = column_of(keys, given, usual);
  require(column.has_value(), place, "has no \"{0}\"; its keys are {1}: name one in {2}_column",
          given.value_or(what), printable(fmt::format("{}", fmt::join(keys, ", "))), what);
  const auto& value = object.at(keys[*column]);
  if (value.is_string()) return value.get<std::string>();
  require(value.is_number_integer() || value.is_boolean(), place,
          "\"{}\" is neither a text nor a whole number", printable(keys[*column]));
  return value.dump();
}

LabelledRows read_objects(const std::string& path, const LabelledColumns& columns) {
  const std::string contents = files::read_text_of_data(path, kMaxCorpusBytes);
  LabelledRows read;
  Index number = 0;
  for (const std::string_view line : lines_of(contents, path, columns.max_line)) {
    const std::string place = at_line(path, ++number);
    if (is_blank(line)) continue;
    const auto object = files::parse_json<nlohmann::json>(std::string(line), place, "the line", kOfLine);
    require(object.is_object(), place, "is no JSON object; each line is one, {{\"label\": …, \"text\": …}}");
    add(read, text_in(object, columns.label, kLabelNames, "label", place),
        text_in(object, columns.text, kTextNames, "text", place), place);
  }
  require(!read.rows.empty(), path, "has no object");
  return read;
}

bool hidden(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with('.') || name.starts_with("__");
}

LabelledRows read_folder(const std::string& path, const LabelledColumns& columns) {
  LabelledRows read;
  Index others = 0;
  for (const auto& of_class : files::entries_of(path)) {
    if (hidden(of_class.path()) || files::kind_of(of_class.path()) != files::Kind::folder) {
      ++others;
      continue;
    }
    for (const auto& entry : files::entries_of(of_class.path())) {
      const std::string file = entry.path().string();
      if (hidden(entry.path()) || entry.path().extension() != ".txt") {
        ++others;
        continue;
      }
      const std::string text = files::read_text(file, static_cast<std::uint64_t>(columns.max_line));
      require_utf8(text, file);
      add(read, of_class.path().filename().string(), text, file);
    }
  }
  require(!read.rows.empty(), path, "has no text, expected a folder of .txt files for each class");
  if (others > 0)
    read.notes.push_back(
        fmt::format("{}: {} entries are ignored: they are hidden, or no .txt file in the folder of a class",
                    path, others));
  return read;
}

}  // namespace

LabelledRows read_labelled_rows(const std::string& path, const LabelledColumns& columns) {
  if (files::kind_of(path) == files::Kind::folder) return read_folder(path, columns);
  const std::string extension = lower_case(fs::path(path).extension().string());
  if (extension == ".csv") return read_csv(path, columns);
  return extension == ".jsonl" || extension == ".ndjson" ? read_objects(path, columns)
                                                         : read_lines(path, columns);
}

}  // namespace tandem::datasets
