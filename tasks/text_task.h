// Base of tasks with one model whose samples are texts.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "core/random.h"
#include "models/model_options.h"
#include "tasks/task_factory.h"
#include "tasks/text_data.h"

namespace tandem::tasks {

// OptionsT has the member `model`; DataT is a TextData.
template <class OptionsT, class DataT, class ModelT>
class TextTask : public Task {
 public:
  // Throws options::OptionError when the model is no ModelT.
  TextTask(const OptionsT& options, const Context& context, std::shared_ptr<const DataT> data,
           const models::DataInfo& facts)
      : options_(options), context_(context), data_(std::move(data)) {
    const RandomScope random(context_.seed, 0, 0);
    model_ = models::build_as<ModelT>(options_.model, facts);
  }

  nn::Module& model() override { return *model_; }
  DataPtr data() const override { return data_; }

  datasets::SourcePtr evaluation_source(const std::string& split, Device device) const override {
    return is_overfit_run() && split == "train" ? training_source(device, 0) : source_of(split, device);
  }
  std::string validation_split() const override {
    return is_overfit_run() ? "train" : data_->corpus().validation.size() > 0 ? "validation" : "test";
  }

 protected:
  bool is_overfit_run() const { return context_.loading.overfit_batches > 0; }
  // A whole split, in order.
  virtual datasets::SourcePtr source_of(const std::string& split, Device device) const = 0;
  // The signature of a model of texts of `length` ids.
  Signature signature(Index length) {
    return {.module = model_.get(),
            .sample = {length},
            .dtype = DType::i64,
            .batch_axis = 1,
            .input = "words",
            .outputs = {"logits"}};
  }

  const OptionsT options_;
  const Context context_;
  const std::shared_ptr<const DataT> data_;
  std::shared_ptr<ModelT> model_;
};

// Factory of a text task; its data takes the words of existing weights (Context::words_of).
template <class TaskT, class OptionsT, class DataT>
class TextTaskFactory final : public TaskFactoryOf<TaskT, OptionsT, DataT> {
 public:
  using TaskFactoryOf<TaskT, OptionsT, DataT>::TaskFactoryOf;
  DataPtr open(SampleReport) const override {
    return DataT::open(this->options(), this->context().words_of.get());
  }
  DataPtr describe() const override {
    return DataT::describe(this->options(), this->context().words_of.get());
  }
};

}  // namespace tandem::tasks
