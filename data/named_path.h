// Errors about data.path that name the key.
#pragma once

#include <fmt/format.h>

#include <filesystem>

#include "core/error.h"
#include "data/labelled_set.h"
#include "files/not_there.h"

namespace tandem::datasets {

// The result of `open()`. A filesystem_error, or a UserError whose place is the path, becomes a UserError of
// "data.path".
template <class Open>
auto open_named_path(const SetOptions& common, const Open& open) {
  const std::string path = common.place().string();
  try {
    return open();
  } catch (const std::filesystem::filesystem_error& error) {
    throw UserError("data.path",
                    fmt::format("{}: cannot be read: {}", error.path1().string(), error.code().message()));
  } catch (const files::NotThere& error) {
    throw files::NotThere(error.where() == path || error.where().empty() ? "data.path" : error.where(),
                          error.where() == path && !path.empty()
                              ? fmt::format("{}: {}", path, error.message())
                              : std::string(error.message()));
  } catch (const UserError& error) {
    if (path.empty() || error.where() != path) throw;
    throw UserError("data.path", fmt::format("{}: {}", path, error.message()));
  }
}

}  // namespace tandem::datasets
