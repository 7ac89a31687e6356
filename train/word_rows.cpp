#include "train/word_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>

#include "config/task.h"
#include "core/error.h"
#include "runs/checkpoints.h"
#include "tasks/vocabularies.h"

namespace tandem::train {

namespace {

using tasks::NamedVocabulary;

constexpr const char* kTheWeights = R"(take theirs: init_from.vocabulary="from run")";

models::RowMap map_of(const NamedVocabulary& own, const NamedVocabulary& saved) {
  std::unordered_map<std::string_view, Index> places;
  for (std::size_t i = 0; i < saved.words.size(); ++i) places.emplace(saved.words[i], static_cast<Index>(i));
  models::RowMap map{.rows = {}, .in_file = static_cast<Index>(saved.words.size())};
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
      "{}: {} of {} are taken from the weights by name, {} are new and start as drawn; {} of the weights' {} "
      "are dropped",
      own.what, all - fresh, all, fresh, map.in_file - (all - fresh), map.in_file);
}

}  // namespace

WordRows rows_by_word(const config::Config& config, tasks::Task& task, const safetensors::File& weights) {
  const auto* const model = dynamic_cast<const models::HasWordTables*>(&task.model());
  const tasks::DataPtr data = task.data();
  const auto* const has = dynamic_cast<const tasks::HasVocabularies*>(data.get());
  if (!model || !has) return {};
  if (!weights.metadata().contains("tandem.data"))
    return {{}, {"the file of weights names no words: its tables are taken row by row as they stand"}};
  const tasks::DataPtr then = config::recall_data(config, runs::saved_data(weights.path()));
  const std::vector<NamedVocabulary> own = has->vocabularies(),
                                     saved =
                                         dynamic_cast<const tasks::HasVocabularies&>(*then).vocabularies();
  WordRows found;
  for (std::size_t v = 0; v < own.size(); ++v) {
    require(
        own[v].codec == saved[v].codec, "",
        "init_from.path: {}: its {} are those of \"{}\", the data's of \"{}\", which cuts texts in another "
        "way; name the same one, or {}",
        weights.path(), own[v].what, saved[v].codec, own[v].codec, kTheWeights);
    if (own[v].words == saved[v].words) continue;
    const models::RowMap map = map_of(own[v], saved[v]);
    found.notes.push_back(note_of(own[v], map));
    for (const models::WordTable& table : model->word_tables()) {
      if (table.vocabulary != v) continue;
      require(!table.by_frequency, "",
              "init_from.path: {}: has other {} than the data, and \"{}\" has them in clusters by their "
              "frequency, between which no row can move; {}",
              weights.path(), own[v].what, table.parameter, kTheWeights);
      found.rows.emplace(table.parameter, map);
    }
  }
  return found;
}

}  // namespace tandem::train
