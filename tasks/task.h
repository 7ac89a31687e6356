// Task: one family of models whole, from its data to its predictions. The loop, the studies and the commands
// work through this interface and know of no family what its batches hold.
//
// Data is separate from the task that learns from it: it is opened before a model of its sizes can be made,
// and models are looked at that have none (a description in a file of weights is enough).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "amp/autocast.h"
#include "core/tensor.h"
#include "data/source.h"
#include "nn/exported.h"
#include "nn/module.h"
#include "optim/step/micro_batches.h"
#include "tasks/breakdown.h"
#include "tasks/carried_state.h"
#include "tasks/metrics.h"
#include "tasks/record.h"

namespace tandem::tasks {

using Json = nlohmann::ordered_json;

// Told where the outputs are there and the loss begins, for those who time it; may be empty.
using OutputsReady = std::function<void()>;

// What a family knows of its data: opened, or described only.
class Data;
using DataPtr = std::shared_ptr<const Data>;

// The same data with other numbers for its classes.
struct ReorderedData {
  DataPtr data;
  std::string note;  // what to tell of it, one line
};

class Data {
 public:
  virtual ~Data() = default;
  // What is saved with weights, from which the family recalls it.
  virtual Json description() const = 0;
  // Samples of the training split; 0: not known.
  virtual Index training_samples() const = 0;
  // Throws UserError naming `weights` when they were made for data that these cannot stand for.
  virtual void require_like(const Json& saved, const std::string& weights) const = 0;
  // With its classes in the order that `saved` has them in, where they are the same ones in another order;
  // nothing otherwise. Throws UserError for a description that is not of this family.
  virtual std::optional<ReorderedData> in_order_of(const Json& saved) const {
    (void)saved;
    return std::nullopt;
  }
  // Reads every sample that opening has not read, and tells `bad`, one at a time, why of each that cannot be.
  virtual void read_all(const std::function<void(const std::string&)>& bad) const { (void)bad; }
};

// A file that an evaluation leaves beside the run's metrics. PNG images are shown in the report and in
// TensorBoard, too.
struct Artifact {
  std::string file;  // within the run directory
  std::string contents;
  bool kept = false;  // one for each evaluation, the epoch before the extension; else only the newest
};

// Gathers figures over the batches of one pass; every sample weighs the same, whatever its batch.
//
// A pass can be distributed: each process has an evaluation made alike, each batch goes through the model in
// one process, and one process accumulates the records of all. Metrics and files are bit-identical to those
// of a single-process evaluation.
class Evaluation {
 public:
  virtual ~Evaluation() = default;
  // Runs the model on the batch, in the mode and the precision that are active, and X  // it. Depends on the
  // batch alone, Batch::first included, and on what was carried; nothing is counted.
  virtual Record forward(const datasets::Batch& batch) = 0;
  // Adds the record of a batch, of this process or another. Called for all batches of the pass in their
  // order; runs no model. Throws InternalError for an incomplete record, after which there are no metrics.
  virtual void accumulate(std::span<const std::byte> record) = 0;
  void add(const datasets::Batch& batch) { accumulate(forward(batch)); }
  // Whether state is carried from batch to batch: then every process sees all batches in their order, and
  // skips those of other processes.
  virtual bool carries() const { return false; }
  // Advances the carried state past a batch of another process.
  virtual void skip(const datasets::Batch&) {}

  // All below describe the accumulated records and run no model.
  virtual Metrics metrics() const = 0;
  // More than figures, where asked for: as members of an object, and as files.
  virtual Json details() const;
  virtual std::vector<Artifact> artifacts() const { return {}; }
  // Nothing where classes have no figures of their own.
  virtual std::optional<Breakdown> breakdown() const { return std::nullopt; }
};

// What a module takes and is called, for summaries and exports.
struct Signature {
  nn::Module* module = nullptr;
  Shape sample;  // of its input, without the batch
  DType dtype = DType::f32;
  int batch_axis = 0;  // of its input: where the batch is
  std::string path{};  // of the module below the root; of the root itself, none
  // Their names in exports; empty: those of a classifier.
  std::string input{};
  std::vector<std::string> outputs{};
  // What is exported as a graph; empty: the module's own call.
  nn::Forward graph{};
  // What a graph can do with its outputs, where asked for.
  std::optional<nn::Suppression> suppression{};
  // Why it is no graph that another program could run, such as an ONNX file; empty: it is one.
  std::string no_graph{};
};

// What one optimizer of a phase trains.
struct Share {
  std::string optimizer;  // its name, by which the configuration gives its options
  nn::Module* trained = nullptr;
};

// Part of an iteration that ends in an update of its own: the whole of it for most tasks, a network's turn
// where two learn against each other.
struct Phase {
  std::string name;
  nn::Module* trained = nullptr;
  // They add up. Each may have a loss scale of its own, and is computed by itself then.
  int losses = 1;
  // Who trains which part of it; empty: one optimizer of the phase's name, all of it.
  std::vector<Share> shares{};
};

// Which loss is asked for, and what passes from one micro-batch to the next.
struct LossContext {
  std::size_t phase = 0;
  int loss = 0;                   // of the phase's
  CarriedState* carry = nullptr;  // absent: the stream begins here, and nobody asks for what comes after
  OutputsReady ready{};

  // As CarriedState has them.
  Tensor carried(std::string_view name) const { return carry ? carry->find(name) : Tensor(); }
  void set_carried(std::string_view name, const Tensor& value) const {
    if (carry) carry->set(name, value.detach());
  }
};

// What `tandem predict` was asked for. What a task takes no notice of it lists nowhere, see predict_options.
struct PredictRequest {
  std::vector<std::string> inputs;  // files and folders
  std::optional<std::int64_t> top;  // answers for each input, or the likeliest to choose among
  bool logits = false;
  bool json = false;
  std::string out;                    // the file or folder to write
  std::optional<std::int64_t> count;  // how many to make up
  std::optional<std::int64_t> seed;   // of what is made up
  std::optional<std::string> prompt;  // what is gone on from
  std::optional<double> temperature;  // of a choice by chance; 0: always the likeliest
  std::optional<double> threshold;    // the least score of what is shown
  std::optional<std::string> stop;    // a text that ends what is made up
};

// The mean that the loss of a batch is, over its:
enum class PartCounts : std::uint8_t {
  samples,
  weight,   // Batch::weight, which its source knows
  measured  // Task::measured_weight, which takes a look at the batch
};

class Task {
 public:
  virtual ~Task() = default;

  // All that is trained and saved, below one root.
  virtual nn::Module& model() = 0;
  virtual DataPtr data() const = 0;
  // In the order of a step. One, named "train", unless overridden.
  virtual std::vector<Phase> phases() { return {{"train", &model()}}; }

  // A loss of a micro-batch: an f32 scalar, the mean over the batch. The same random numbers are drawn by
  // every phase of an iteration that draws them in the same order.
  virtual Tensor loss(const datasets::Batch& batch, const LossContext& context = {}) = 0;
  // The share of a micro-batch in a step of several, and of a shard in its batch.
  virtual PartCounts part_counts() const { return PartCounts::samples; }
  // With PartCounts::measured, without waiting for a device. Throws InternalError otherwise.
  virtual optim::PartWeight measured_weight(const datasets::Batch& batch) const;
  // Of what Batch::samples is the number, for rates: "images", "words".
  virtual std::string samples_are() const { return "items"; }

  // Batches to train on, shuffled and augmented as the configuration says, and those of a split ("train",
  // "validation", "test") as evaluation takes them. Batches of training have `batch_size` samples where that
  // is not 0, and no smaller ones come last then. Throws InternalError when the data is only described,
  // UserError when there is no such split.
  virtual datasets::SourcePtr training_source(Device device, Index batch_size = 0) const = 0;
  virtual datasets::SourcePtr evaluation_source(const std::string& split, Device device) const = 0;
  // The split that chooses the best epoch: "validation" where there is one, else "test"; "train" where a run
  // is meant to overfit.
  virtual std::string validation_split() const = 0;
  // Fields as training gets them, of samples that were made up from a seed, or with `device` shapes of
  // nothing.
  virtual datasets::Batch synthetic_batch(Index samples, std::uint64_t seed, Device device) const = 0;

  // Throws UserError for details that this data cannot have.
  virtual std::unique_ptr<Evaluation> evaluation(bool details = false) = 0;
  // Figures of the family that an evaluation of the split does not define, each with the reason.
  virtual std::map<std::string, std::string> undefined_figures(const std::string& split) const {
    (void)split;
    return {};
  }
  // Whether a run leaves the details of its last evaluation.
  virtual bool keeps_details() const { return false; }

  // A line on the data and one on a batch, for `train --dry-run`.
  virtual std::string text_of(const datasets::Batch& batch) const = 0;
  virtual std::string text_of_data() const = 0;
  // What a run says of the data besides, a line each.
  virtual std::vector<std::string> notes_of_data() const { return {}; }
  // The modules that can be called on one input, the one that is exported first.
  virtual std::vector<Signature> signatures() = 0;
  // What a program must know that runs the exported module: keys and texts of its metadata.
  virtual std::map<std::string, std::string> export_metadata() const { return {}; }
  // The options of `tandem predict` that mean something here, by their names on the command line ("--top").
  virtual std::vector<std::string> predict_options() const = 0;
  // Prints or writes what the model says of the inputs. The model lies on `device`, in evaluation mode.
  virtual void predict(const PredictRequest& request, Device device) = 0;
};

}  // namespace tandem::tasks
