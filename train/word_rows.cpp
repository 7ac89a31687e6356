#include "train/word_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>

#include "config/task.h"
#include "core/error.h"
#include "runs/checkpoints.h"

namespace tandem::train {

namespace {

using tasks::NamedVocabulary;

constexpr const char* kUseSavedVocabulary =
    R"(use the vocabulary of the weights: init_from.vocabulary="from run")";

models::RowMap map_of(const NamedVocabulary& own, const NamedVocabulary& saved) {
  std::unordered_map<std::string_view, Index> places;
  for (std::size_t i = 0; i < saved.words.size(); ++i) places.emplace(saved.words[i], static_cast<Index>(i));
  models::RowMap map{.in_file = static_cast<Index>(saved.words.size())};
  map.rows.reserve(own.words.size());
  for (const std::string& word : own.words) {
    const auto found = places.find(word);
    map.rows.push_back(found == places.end() ? models::RowMap::kNew : found->second);
  }
  return map;
}

std::string note_of(const NamedVocabulary& own, const models::RowMap& map) {
  const auto all = static_cast<Index>(map.rows.size());
  const Index fresh = std::ranges::count(map.rows, models::RowMap::kNew);
  return fmt::format(
      "{}: {} of {} are taken from the weights by name, {} are new and keep their initial rows; {} of the "
      "weights' {} are dropped",
      own.what, all - fresh, all, fresh, map.in_file - (all - fresh), map.in_file);
}

}  // namespace

WordRows rows_by_word(const config::Config& config, tasks::Task& task, const safetensors::File& weights) {
  const auto* const model = dynamic_cast<const models::HasWordTables*>(&task.model());
  const std::vector<NamedVocabulary> own = task.data()->vocabularies();
  if (!model || own.empty()) return {};
  if (!weights.metadata().contains("tandem.data"))
    return {{}, {"the weight file has no vocabulary: tables are copied row by row"}};
  const tasks::DataPtr then = config::recall_data(config, runs::saved_data(weights.path()));
  const std::vector<NamedVocabulary> saved = then->vocabularies();
  WordRows found;
  for (std::size_t v = 0; v < std::min(own.size(), saved.size()); ++v) {
    require(own[v].codec == saved[v].codec, "",
            "init_from.path: {}: its {} are those of \"{}\", the data's of \"{}\", which tokenizes texts "
            "differently; use the same one, or {}",
            weights.path(), own[v].what, saved[v].codec, own[v].codec, kUseSavedVocabulary);
    if (own[v].words == saved[v].words) continue;
    const models::RowMap map = map_of(own[v], saved[v]);
    found.notes.push_back(note_of(own[v], map));
    for (const models::WordTable& table : model->word_tables()) {
      if (table.vocabulary != v) continue;
      require(!table.by_frequency, "",
              "init_from.path: {}: has other {} than the data, and the rows of \"{}\" are in clusters by "
              "frequency, between which no row can move; {}",
              weights.path(), own[v].what, table.parameter, kUseSavedVocabulary);
      found.rows.emplace(table.parameter, map);
    }
  }
  return found;
}

}  // namespace tandem::train
