#include "data/text/byte_pairs.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <ranges>

#include "core/error.h"
#include "core/printable.h"
#include "data/text/byte_names.h"
#include "data/text/vocabulary.h"
#include "files/base64.h"
#include "files/byte_order_mark.h"
#include "files/input.h"
#include "files/json_text.h"

namespace tandem::datasets {

namespace {

using PartsJson = nlohmann::json;  // its objects are searched in logarithmic time

constexpr std::uint64_t kMaxTokenizerBytes = std::uint64_t{1} << 28;

std::string shown(std::string_view name) { return shortened(printable(name), 60); }

PartsJson read_json(const std::string& path, const std::string& what) {
  const auto most = static_cast<std::size_t>(kMaxVocabulary);
  return files::parse_json<PartsJson>(files::read_text(path, kMaxTokenizerBytes), path, what,
                                      {.depth = 16, .keys = most, .items = most});
}

// Names by id. `extra` are further tokens, which may repeat one of the vocabulary.
struct NamedToken {
  std::string name;
  std::int64_t id;
};
std::vector<std::string> names_by_id(const PartsJson& vocab, const std::vector<NamedToken>& extra,
                                     const std::string& where) {
  require(vocab.is_object() && !vocab.empty(), where,
          "the vocabulary is no object of tokens and their ids, or is empty; pass the vocab.json of a "
          "byte-level BPE");
  std::vector<std::string> names;
  std::vector<bool> known;
  const auto most = static_cast<std::int64_t>(vocab.size() + extra.size());
  const auto add = [&](const std::string& name, std::int64_t id) {
    require(id >= 0 && id < most, where, "token \"{}\" has the id {}, expected 0 to {}: ids have no gaps",
            shown(name), id, most - 1);
    const auto place = static_cast<std::size_t>(id);
    if (place >= names.size()) {
      names.resize(place + 1);
      known.resize(place + 1);
    }
    require(!known[place] || names[place] == name, where, "tokens \"{}\" and \"{}\" both have the id {}",
            shown(names[place]), shown(name), id);
    names[place] = name;
    known[place] = true;
  };
  for (const auto& [name, id] : vocab.items()) {
    require(id.is_number_integer(), where, "token \"{}\" has no whole number as its id", shown(name));
    add(name, id.get<std::int64_t>());
  }
  for (const NamedToken& token : extra) add(token.name, token.id);
  const auto gap = std::ranges::find(known, false);
  require(gap == known.end(), where, "no token has the id {} of {}: ids have no gaps", gap - known.begin(),
          names.size());
  return names;
}

// Tokens that are no byte and made by no merge; they are special if they look like it.
std::vector<std::int32_t> special_by_look(const std::vector<std::string>& names,
                                          std::span<const std::string> merges, const std::string& where) {
  TextMap<bool> made;
  for (const std::string& merge : merges) {
    std::string result = merge;
    std::erase(result, ' ');
    made.emplace(std::move(result), true);
  }
  std::vector<std::int32_t> special;
  for (std::size_t id = 0; id < names.size(); ++id) {
    const std::string& name = names[id];
    const auto bytes = bytes_of_name(name);
    if ((bytes && bytes->size() == 1) || made.contains(name)) continue;
    const bool looks_special = name.size() > 2 && ((name.front() == '<' && name.back() == '>') ||
                                                   (name.front() == '[' && name.back() == ']'));
    require(looks_special, where,
            "no merge makes token {}, \"{}\", and it is not special (\"<…>\"); pass the vocabulary and the "
            "merges of one model",
            id, shown(name));
    special.push_back(static_cast<std::int32_t>(id));
  }
  return special;
}

// Lines of merges.txt; the first may be "#version: …".
std::vector<std::string> read_merges(const std::string& path) {
  const std::string text = files::read_text(path, kMaxTokenizerBytes);
  std::vector<std::string> merges;
  std::size_t number = 0;
  files::each_line(files::without_byte_order_mark(text), [&](std::string_view line, bool) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number;
    if (line.empty() || (number == 1 && line.starts_with("#version"))) return;
    require(std::ranges::count(line, ' ') == 1 && line.front() != ' ' && line.back() != ' ',
            fmt::format("{}:{}", path, number),
            "\"{}\" is no pair of tokens, expected two with a space between", shown(line));
    merges.emplace_back(line);
  });
  return merges;
}

// ---- tokenizer.json

bool absent(const PartsJson& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null();
}

std::string type_of(const PartsJson& object, const char* key) {
  if (absent(object, key)) return "null";
  const PartsJson& part = object.at(key);
  const bool typed = part.is_object() && part.contains("type") && part.at("type").is_string();
  return typed ? part.at("type").get<std::string>() : "without a type";
}

void require_part(bool known, const std::string& path, std::string_view part, std::string_view is,
                  std::string_view expected) {
  require(known, path,
          "its \"{}\" is {}, expected {}; other tokenizers than byte-level BPE as in GPT-2 cannot be read",
          part, shown(is), expected);
}

// Throws unless every part has no effect, or that of GPT-2's.
void require_known_parts(const PartsJson& file, const std::string& path) {
  constexpr std::array known{"version",       "truncation",     "padding", "added_tokens", "normalizer",
                             "pre_tokenizer", "post_processor", "decoder", "model"};
  for (const auto& [key, value] : file.items())
    require_part(std::ranges::find(known, key) != known.end() || value.is_null(), path, key, "given", "none");
  require_part(absent(file, "normalizer"), path, "normalizer", type_of(file, "normalizer"), "null");
  const std::string splitter = type_of(file, "pre_tokenizer");
  require_part(splitter == "ByteLevel", path, "pre_tokenizer", splitter, "ByteLevel");
  const std::string decoder = type_of(file, "decoder");
  require_part(decoder == "ByteLevel" || decoder == "null", path, "decoder", decoder, "ByteLevel");
  // Templates add special tokens around a text, as the tasks do.
  const std::string after = type_of(file, "post_processor");
  require_part(after == "null" || after == "ByteLevel" || after == "TemplateProcessing", path,
               "post_processor", after, "ByteLevel or TemplateProcessing");
  const std::string model = type_of(file, "model");
  require_part(model == "BPE", path, "model", model, "BPE");
  const auto require_default = [&](const PartsJson& part, const std::string& of, const char* key,
                                   const PartsJson& value) {
    require_part(absent(part, key) || part.at(key) == value, path, of + "." + key,
                 part.contains(key) ? part.at(key).dump() : "", value.dump());
  };
  require_default(file.at("pre_tokenizer"), "pre_tokenizer", "use_regex", true);
  constexpr std::array of_model{"type", "vocab", "merges"};
  const PartsJson defaults{
      {"dropout", nullptr},       {"unk_token", nullptr}, {"continuing_subword_prefix", ""},
      {"end_of_word_suffix", ""}, {"fuse_unk", false},    {"byte_fallback", false},
      {"ignore_merges", false}};
  for (const auto& [key, value] : file.at("model").items()) {
    if (std::ranges::find(of_model, key) != of_model.end()) continue;
    require_part(defaults.contains(key) || value.is_null(), path, "model." + key, value.dump(), "none");
    if (defaults.contains(key)) require_default(file.at("model"), "model", key.c_str(), defaults.at(key));
  }
}

std::vector<NamedToken> added_tokens(const PartsJson& file, const std::string& path) {
  std::vector<NamedToken> added;
  if (absent(file, "added_tokens")) return added;
  for (const PartsJson& token : file.at("added_tokens")) {
    const auto name = token.at("content").get<std::string>();
    const std::string of = fmt::format("added_tokens (\"{}\")", shown(name));
    require_part(token.value("special", false), path, of, "not special", "special tokens");
    for (const char* const key : {"single_word", "lstrip", "rstrip"})
      require_part(!token.value(key, false), path, fmt::format("{}.{}", of, key), "true", "false");
    added.push_back({name, token.at("id").get<std::int64_t>()});
  }
  return added;
}

// "a b", or ["a", "b"] in newer files.
std::vector<std::string> listed_merges(const PartsJson& list, const std::string& path) {
  require(list.is_array(), path, "its \"model.merges\" is no list of pairs of tokens");
  std::vector<std::string> merges;
  merges.reserve(list.size());
  for (const PartsJson& merge : list) {
    const bool pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    require(pair || merge.is_string(), path, "merge {} of \"model.merges\" is {}, expected two tokens",
            merges.size(), shown(merge.dump()));
    merges.push_back(pair ? merge[0].get<std::string>() + " " + merge[1].get<std::string>()
                          : merge.get<std::string>());
  }
  return merges;
}

BytePairs read_tokenizer_json(const std::string& path) try {
  const PartsJson file = read_json(path, "the tokenizer");
  require(file.is_object(), path, "is no object of the parts of a tokenizer");
  require_known_parts(file, path);
  const PartsJson& model = file.at("model");
  const std::vector<NamedToken> added = added_tokens(file, path);
  std::vector<std::int32_t> special;
  for (const NamedToken& token : added) special.push_back(static_cast<std::int32_t>(token.id));
  BytePairs pairs = byte_pairs_of_names(names_by_id(model.at("vocab"), added, path), std::move(special),
                                        listed_merges(model.at("merges"), path), path);
  pairs.prefix_space = file.at("pre_tokenizer").value("add_prefix_space", true);
  return pairs;
} catch (const nlohmann::json::exception& error) {
  throw UserError(path, fmt::format("the tokenizer is damaged: {}; save it again with the library tokenizers",
                                    files::json_reason(error)));
}

// ---- tiktoken's files

BytePairs read_ranks(std::string_view text, const std::string& path) {
  BytePairs pairs{.merges_by_id = true};
  std::size_t number = 0;
  files::each_line(text, [&](std::string_view line, bool) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string where = fmt::format("{}:{}", path, ++number);
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string_view digits = line.substr(std::min(space + 1, line.size()));
    std::size_t id = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
    require(space > 0 && error == std::errc() && end == digits.data() + digits.size(), where,
            "\"{}\" is no token in base64 and its id, and the file is no JSON; pass a tokenizer.json or a "
            ".tiktoken file",
            shown(line));
    require(id == pairs.tokens.size(), where,
            "the id is {}, expected {}: lines are in the order of their ids", id, pairs.tokens.size());
    pairs.tokens.push_back(files::from_base64(line.substr(0, space), where));
  });
  require(!pairs.tokens.empty(), path, "is empty; pass a tokenizer.json or a .tiktoken file");
  return pairs;
}

}  // namespace

BytePairs read_vocab_and_merges(const std::string& vocab, const std::string& merges) {
  const std::vector<std::string> names = names_by_id(read_json(vocab, "the vocabulary"), {}, vocab);
  const std::vector<std::string> pairs = read_merges(merges);
  return byte_pairs_of_names(names, special_by_look(names, pairs, vocab), pairs, merges);
}

BytePairs read_tokenizer_file(const std::string& path) {
  const std::string text = files::read_text(path, kMaxTokenizerBytes);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{' ? read_tokenizer_json(path)
                                                          : read_ranks(text, path);
}

std::vector<std::string> token_names(const BytePairs& pairs) {
  std::vector<std::string> names;
  names.reserve(pairs.tokens.size());
  for (const std::string& token : pairs.tokens) names.push_back(name_of_bytes(token));
  for (const std::int32_t id : pairs.special)
    names[static_cast<std::size_t>(id)] = pairs.tokens[static_cast<std::size_t>(id)];
  return names;
}

std::vector<std::string> merge_names(const BytePairs& pairs) {
  const auto name = [&](std::int32_t id) {
    return name_of_bytes(pairs.tokens[static_cast<std::size_t>(id)]);
  };
  std::vector<std::string> names;
  names.reserve(pairs.merges.size());
  for (const auto& [left, right] : pairs.merges) names.push_back(name(left) + " " + name(right));
  return names;
}

BytePairs byte_pairs_of_names(const std::vector<std::string>& tokens, std::vector<std::int32_t> special,
                              std::span<const std::string> merges, const std::string& where) {
  BytePairs pairs;
  std::ranges::sort(special);
  const auto repeated = std::ranges::unique(special);
  special.erase(repeated.begin(), repeated.end());
  TextMap<std::int32_t> ids;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    if (std::ranges::binary_search(special, id)) {
      require(!tokens[i].empty(), where, "special token {} has no text; name it, or remove it", id);
      pairs.tokens.push_back(tokens[i]);
      continue;
    }
    auto bytes = bytes_of_name(tokens[i]);
    require(bytes && !bytes->empty(), where,
            "token {}, \"{}\", has a character that stands for no byte; only vocabularies of byte-level BPE "
            "can be read",
            id, shown(tokens[i]));
    const auto [found, fresh] = ids.emplace(tokens[i], id);
    require(fresh, where, "tokens {} and {} are both \"{}\"", found->second, id, shown(tokens[i]));
    pairs.tokens.push_back(std::move(*bytes));
  }
  require(special.empty() || (special.front() >= 0 && special.back() < static_cast<Index>(tokens.size())),
          where, "a special token has the id {}, expected 0 to {}", special.empty() ? 0 : special.back(),
          static_cast<Index>(tokens.size()) - 1);
  pairs.special = std::move(special);
  pairs.merges.reserve(merges.size());
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const std::string_view merge = merges[i];
    const std::size_t space = std::min(merge.find(' '), merge.size());
    const std::string_view left = merge.substr(0, space),
                           right = merge.substr(std::min(space + 1, merge.size()));
    for (const std::string& name : {std::string(left), std::string(right), std::string(left).append(right)})
      require(ids.contains(name), where,
              "merge {}, \"{}\", needs the token \"{}\", which the vocabulary does not have; pass the "
              "vocabulary and the merges of one model",
              i + 1, shown(merge), shown(name));
    pairs.merges.push_back({ids.find(left)->second, ids.find(right)->second});
  }
  return pairs;
}

}  // namespace tandem::datasets
