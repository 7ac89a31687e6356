#include "data/text.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "core/error.h"
#include "data/io/byte_reader.h"

namespace tandem::datasets {

namespace {

constexpr std::size_t kValidationEvery = 20;

// Adds one line of an index to the description under way.
class DescriptionReader {
 public:
  void line(std::string_view line) {
    constexpr std::string_view kField = "Description-en:";
    if (line.starts_with(kField)) {
      finish();
      inside_ = true;
      current_ = line.substr(kField.size());
      current_ += " . ";
    } else if (inside_ && line.starts_with(' ')) {
      current_ += line == " ." ? " . " : line;
      current_ += ' ';
    } else {
      finish();
    }
  }

  std::vector<std::vector<std::string>> take() {
    finish();
    return std::move(documents_);
  }

 private:
  void finish() {
    if (inside_ && seen_.insert(current_).second) documents_.push_back(words_of(current_));
    inside_ = false;
    current_.clear();
  }

  bool inside_ = false;
  std::string current_;
  std::unordered_set<std::string> seen_;
  std::vector<std::vector<std::string>> documents_;
};

}  // namespace

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto finish = [&] {
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool upper = c >= 'A' && c <= 'Z';
    if (upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '\'' || c >= 0x80) {
      word += static_cast<char>(upper ? c + ('a' - 'A') : c);
      continue;
    }
    // "3.2" and "e.g" stay whole; a full stop ends a sentence when a space or the end follows.
    if (c == '.' && !word.empty() && i + 1 < text.size() && text[i + 1] != ' ') {
      word += '.';
      continue;
    }
    finish();
    if (c == '.' && (words.empty() || words.back() != ".")) words.emplace_back(".");
  }
  finish();
  return words;
}

Vocabulary::Vocabulary(const std::vector<std::vector<std::string>>& documents, Index size) {
  require(size >= 3, "text", "a vocabulary holds at least 3 words, asked for {}", size);
  std::map<std::string, std::int64_t> counts;
  for (const auto& document : documents)
    for (const std::string& word : document) ++counts[word];
  std::vector<std::pair<std::int64_t, std::string>> order;
  for (const auto& [word, count] : counts) order.emplace_back(-count, word);
  std::ranges::sort(order);
  words_ = {"<unk>", "<end>"};
  for (std::size_t i = 0; i < order.size() && size > static_cast<Index>(words_.size()); ++i)
    words_.push_back(order[i].second);
  for (std::size_t i = 2; i < words_.size(); ++i) numbers_.emplace(words_[i], static_cast<std::int32_t>(i));
}

std::int32_t Vocabulary::number_of(const std::string& word) const {
  const auto found = numbers_.find(word);
  return found == numbers_.end() ? kUnknown : found->second;
}

TextCorpus read_package_descriptions(const std::filesystem::path& path, Index vocabulary) {
  const std::vector<std::byte> bytes = read_file(path, kMaxTextBytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  DescriptionReader reader;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    reader.line(text.substr(at, end - at));
    at = end + 1;
  }
  const auto documents = reader.take();
  require(!documents.empty(), "text", "{} has no line that begins with \"Description-en:\"", path.string());
  TextCorpus corpus{.vocabulary = Vocabulary(documents, vocabulary), .train = {}, .validation = {}};
  for (std::size_t i = 0; i < documents.size(); ++i) {
    auto& to = i % kValidationEvery == kValidationEvery - 1 ? corpus.validation : corpus.train;
    for (const std::string& word : documents[i]) to.push_back(corpus.vocabulary.number_of(word));
    to.push_back(Vocabulary::kEnd);
  }
  return corpus;
}

}  // namespace tandem::datasets
