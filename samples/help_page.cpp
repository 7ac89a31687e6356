#include "samples/help_page.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <unordered_set>
#include <utility>

namespace tandem::datasets {

namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n";
constexpr std::string_view kNoBreakSpace = "\xC2\xA0";

std::string utf8(std::uint32_t code) {
  const auto byte = [](std::uint32_t value) { return static_cast<char>(value); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xC0 | code >> 6), byte(0x80 | (code & 0x3F))};
  if (code < 0x10000)
    return {byte(0xE0 | code >> 12), byte(0x80 | (code >> 6 & 0x3F)), byte(0x80 | (code & 0x3F))};
  return {byte(0xF0 | code >> 18), byte(0x80 | (code >> 12 & 0x3F)), byte(0x80 | (code >> 6 & 0x3F)),
          byte(0x80 | (code & 0x3F))};
}

// The character of the entity that is named between "&" and ";"; "" for an unknown entity.
std::string character(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kNamed{
      {{"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"apos", "'"}, {"nbsp", kNoBreakSpace}}};
  for (const auto& [known, text] : kNamed)
    if (name == known) return std::string(text);
  if (!name.starts_with('#')) return {};
  name.remove_prefix(1);
  const bool hexadecimal = name.starts_with('x');
  if (hexadecimal) name.remove_prefix(1);
  std::uint32_t code = 0;
  const auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), code, hexadecimal ? 16 : 10);
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  if (error != std::errc() || end != name.data() + name.size() || code == 0 || code > 0x10FFFF || surrogate)
    return {};
  return utf8(code);
}

std::string without_entities(std::string_view text) {
  constexpr std::size_t kLongest = 10;  // "#x10FFFF" and more
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t end = text[i] == '&' ? text.substr(i, kLongest + 2).find(';') : std::string_view::npos;
    const std::string found = end == std::string_view::npos ? "" : character(text.substr(i + 1, end - 1));
    if (found.empty()) {
      plain += text[i];
    } else {
      plain += found;
      i += end;
    }
  }
  return plain;
}

std::string one_line(std::string_view text) {
  std::string line;
  bool space = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool wide = text.substr(i).starts_with(kNoBreakSpace);
    if (wide || kWhiteSpace.find(text[i]) != std::string_view::npos) {
      space = true;
      i += wide;
      continue;
    }
    if (space && !line.empty()) line += ' ';
    space = false;
    line += text[i];
  }
  return line;
}

struct Tag {
  std::string_view name;  // "" for a comment or declaration
  bool closes = false;
  std::string_view id, style, hidden;  // attributes; style holds "class"
  std::size_t end = 0;                 // offset in the page, behind the tag
};

void read_attributes(std::string_view page, std::size_t at, Tag& tag) {
  while (at < page.size() && page[at] != '>') {
    const std::size_t name_end = std::min(page.find_first_of("=> \t\r\n", at), page.size());
    const std::string_view name = page.substr(at, name_end - at);
    at = name_end;
    if (at >= page.size() || page[at] != '=') {
      if (at < page.size() && page[at] != '>') ++at;
      continue;
    }
    ++at;
    const bool quoted = at < page.size() && (page[at] == '"' || page[at] == '\'');
    const std::size_t begin = at + quoted;
    const std::size_t end =
        std::min(quoted ? page.find(page[at], begin) : page.find_first_of("> \t\r\n", at), page.size());
    const std::string_view value = page.substr(std::min(begin, page.size()), end - std::min(begin, end));
    if (name == "id") tag.id = value;
    if (name == "class") tag.style = value;
    if (name == "hidden") tag.hidden = value;
    at = std::min(end + quoted, page.size());
  }
  tag.end = std::min(at + 1, page.size());
}

// The tag that begins with the "<" at `at`; without one, an unnamed Tag that ends behind the "<".
Tag tag_at(std::string_view page, std::size_t at) {
  constexpr std::string_view kComment = "<!--";
  if (page.substr(at).starts_with(kComment)) {
    const std::size_t end = page.find("-->", at + kComment.size());
    return {.end = end == std::string_view::npos ? page.size() : end + 3};
  }
  Tag tag{.end = at + 1};
  std::size_t next = at + 1;
  tag.closes = next < page.size() && page[next] == '/';
  next += tag.closes;
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '!'; };
  const std::size_t begin = next;
  while (next < page.size() && letter(page[next])) ++next;
  if (next == begin) return tag;
  tag.name = page.substr(begin, next - begin);
  read_attributes(page, next, tag);
  return tag;
}

class PageReader {
 public:
  std::vector<HelpParagraph> read(std::string_view page) {
    for (std::size_t at = 0; at < page.size();) {
      const std::size_t next = std::min(page.find('<', at), page.size());
      text(page.substr(at, next - at));
      if (next == page.size()) break;
      const Tag tag = tag_at(page, next);
      if (tag.name.empty() && tag.end == next + 1) text("<");
      this->tag(tag);
      at = tag.end;
      if (tag.name == "script" && !tag.closes) at = std::min(page.find("</script", at), page.size());
    }
    finish();
    return std::move(paragraphs_);
  }

 private:
  struct Span {
    bool choice = false;  // holds alternatives
    bool taken = false;   // one alternative is taken
    bool silent = false;  // text inside a rejected alternative is dropped
  };

  void text(std::string_view more) {
    if (inside_ && (spans_.empty() || !spans_.back().silent)) text_ += more;
  }

  void tag(const Tag& tag) {
    const bool paragraph = tag.name == "p" || (tag.name.size() == 2 && tag.name[0] == 'h' &&
                                               tag.name[1] >= '1' && tag.name[1] <= '6');
    if (paragraph) {
      finish();
      if (!tag.closes && !tag.id.empty()) {
        inside_ = true;
        id_ = tag.id;
      }
    } else if (tag.name == "br") {
      text(" ");
    } else if (tag.name == "span" && inside_) {
      if (!tag.closes) {
        spans_.push_back(span_of(tag));
      } else if (!spans_.empty()) {
        spans_.pop_back();
      }
    }
  }

  Span span_of(const Tag& tag) {
    Span span{.choice = tag.style == "switchinline" || tag.style == "switch"};
    if (spans_.empty()) return span;
    Span& around = spans_.back();
    span.silent = around.silent;
    if (around.choice && tag.hidden == "true") {
      span.silent = span.silent || around.taken || tag.style == "MAC";
      around.taken = around.taken || !span.silent;
    }
    return span;
  }

  void finish() {
    if (inside_) {
      std::string line = one_line(without_entities(text_));
      if (!line.empty() && seen_.insert(id_).second) paragraphs_.push_back({id_, std::move(line)});
    }
    inside_ = false;
    text_.clear();
    spans_.clear();
  }

  bool inside_ = false;
  std::string id_, text_;
  std::vector<Span> spans_;
  std::unordered_set<std::string> seen_;
  std::vector<HelpParagraph> paragraphs_;
};

}  // namespace

std::vector<HelpParagraph> help_paragraphs(std::string_view html) { return PageReader().read(html); }

}  // namespace tandem::datasets
