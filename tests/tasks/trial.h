// A task from a configuration, with temporary files of the same lifetime.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/load.h"
#include "config/task.h"
#include "tests/support/temporary_files.h"

namespace tandem::testing {

class TaskTrial {
 public:
  tasks::Task& task() { return *task_; }
  tasks::DataPtr data() const { return data_; }
  template <class Model>
  Model& model_as() {
    return dynamic_cast<Model&>(task_->model());
  }
  const config::Loaded& loaded() const { return loaded_; }

 protected:
  // The path of a file in the folder.
  std::string write(const std::string& name, const std::string& contents) const {
    return directory_.write(name, contents);
  }
  // Once, by the constructor of the derived class.
  void make(const nlohmann::json& config, const std::vector<std::string>& overrides) {
    loaded_ = config::load(write("config.json", config.dump()), overrides);
    data_ = config::open_data(loaded_.config, {});
    task_ = config::make_task(loaded_, data_);
  }

 private:
  TemporaryDirectory directory_;
  config::Loaded loaded_;
  tasks::DataPtr data_;
  std::unique_ptr<tasks::Task> task_;
};

}  // namespace tandem::testing
